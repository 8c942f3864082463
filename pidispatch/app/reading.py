"""Answer questions about runs and the queue from the rows."""

from collections.abc import Sequence

from pidispatch.app.databases import opened
from pidispatch.config import Settings
from pidispatch.domain.limits import RunCap, global_caps
from pidispatch.domain.run import State
from pidispatch.store import history, rundetail, standing
from pidispatch.store.database import Database
from pidispatch.store.history import NoSuchRun, RunRecord
from pidispatch.store.rundetail import RunDetail
from pidispatch.store.standing import QueueStatus

__all__ = [
    "NoSuchRun",
    "QueueStatus",
    "RunDetail",
    "RunRecord",
    "State",
    "detail",
    "runs",
    "standing_of",
    "status",
]


def runs(settings: Settings, *, limit: int, state: State | None = None) -> Sequence[RunRecord]:
    """The newest runs first. This and all below raise what `opened` raises."""
    with opened(settings) as database:
        return history.list_runs(database, limit=limit, state=state)


def detail(settings: Settings, name: str) -> RunDetail:
    """`name` is a run's public id, the beginning of one, or its number. Raises NoSuchRun."""
    with opened(settings) as database:
        return rundetail.run_detail(database, history.find_run(database, name).id)


def status(settings: Settings) -> QueueStatus:
    with opened(settings) as database:
        return standing_of(database, settings)


def standing_of(database: Database, settings: Settings) -> QueueStatus:
    return standing.queue_status(database, caps_of(settings))


def caps_of(settings: Settings) -> tuple[RunCap, ...]:
    return global_caps(
        daily=settings.daily_cap,
        weekly=settings.weekly_cap,
        monthly=settings.monthly_cap,
        soft_pct=settings.soft_hold_pct,
    )
