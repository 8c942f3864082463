"""Say what is true of the queue and of its budget now, by the rows and the files of limits in force."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from pidispatch.app.installation import Installation
from pidispatch.app.policy import FilePolicies
from pidispatch.app.standing import standing_triggers
from pidispatch.config import Settings
from pidispatch.domain.files.inforce import FileName, not_in_force
from pidispatch.domain.limits.policy import Policy
from pidispatch.errors import ConfigurationRefused, PidispatchError
from pidispatch.store.database import Database
from pidispatch.store.keptfiles import KeptFilesToRead, bad_files
from pidispatch.store.read import budget as budgets
from pidispatch.store.read import queue as standing
from pidispatch.store.read.budget import BudgetRecord, BudgetWindow
from pidispatch.store.read.queue import HostRecord, QueueStatus

T = TypeVar("T")


def read_after(read: Callable[[], T]) -> tuple[T | None, str | None]:
    """What was read after a commit, or the sentence why it could not be: an error here would deny what was stored."""
    try:
        return read(), None
    except PidispatchError as error:
        return None, str(error)


__all__ = [
    "BudgetRecord",
    "BudgetWindow",
    "HostRecord",
    "PolicyUnreadable",
    "QueueStatus",
    "budget",
    "standing_of",
]


class PolicyUnreadable(PidispatchError):
    """The files of limits cannot be read, so nothing can be said of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"the limits cannot be read: {'; '.join(problems)}")


def budget(here: Installation) -> BudgetRecord:
    """Raises PolicyUnreadable, and what `Installation.database` raises."""
    policies = FilePolicies(here.settings, KeptFilesToRead(here.database, host=here.host))
    try:
        policy = policies.current()
    except ConfigurationRefused as error:
        raise PolicyUnreadable(error.problems) from error
    if not isinstance(policy, Policy):
        raise PolicyUnreadable(policies.problems() or (policy.reason,))
    return budgets.read_budget(here.database, policy.every_cap(), policy.names)


def standing_of(database: Database, settings: Settings) -> QueueStatus:
    """The windows shown are those of the policy in force; of one that cannot be read, none."""
    kept = KeptFilesToRead(database, host=settings.worker_name)
    policies = FilePolicies(settings, kept)
    problems = (*policies.problems(), *standing_triggers(settings, kept).problems())
    try:
        policy = policies.current()
    except ConfigurationRefused:  # its problems are among those above
        policy = None
    caps = policy.every_cap() if isinstance(policy, Policy) else ()
    return replace(
        standing.queue_status(database, caps),
        file_problems=(*problems, *_told_elsewhere(database, settings, problems)),
    )


def _told_elsewhere(database: Database, settings: Settings, told: Sequence[str]) -> Sequence[str]:
    """What workers and gateways found of files that are not read here, or have another content there."""
    here = settings.worker_name
    found = [
        sentence if bad.host == here else f"{bad.host}: {sentence}"
        for bad in bad_files(database)
        for sentence in not_in_force(bad.found, strict=bad.name == FileName.SETTINGS)
    ]
    known = {sentence.partition(";")[0] for sentence in told}
    return [sentence for sentence in found if sentence.partition(";")[0] not in known]
