"""Read runs back from the rows. The module loads neither the operator's files nor Redis nor Docker."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pidispatch.app.installation import Installation
from pidispatch.domain.runs.run import State
from pidispatch.store.read import history
from pidispatch.store.read.history import RunRecord

if TYPE_CHECKING:
    from pidispatch.store.read.detail import AttemptRecord, RunDetail, SessionRecord, WaitRecord

__all__ = ["AttemptRecord", "RunDetail", "RunRecord", "SessionRecord", "WaitRecord", "detail", "runs"]


def runs(here: Installation, *, limit: int, state: State | None = None) -> Sequence[RunRecord]:
    """The newest runs first. This and all below raise what `Installation.database` raises."""
    return history.list_runs(here.database, limit=limit, state=state)


def detail(here: Installation, name: str) -> "RunDetail":
    """`name` is a run's public id, the beginning of one, or its number. Raises NoSuchRun."""
    from pidispatch.store.read import detail as rundetail

    return rundetail.run_detail(here.database, history.find_run(here.database, name).id)
