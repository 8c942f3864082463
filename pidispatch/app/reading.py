"""Answer questions about runs and the queue from the rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pidispatch.app.databases import opened
from pidispatch.app.policy import FilePolicies
from pidispatch.app.redishealth import red_of_redis
from pidispatch.app.standing import standing_triggers
from pidispatch.config import Settings
from pidispatch.domain.files.inforce import FileName, not_in_force
from pidispatch.domain.health.health import Fault
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.runs.explain import (
    GateLine,
    LastAnswer,
    Waiter,
    WaitsFor,
    gate_lines,
    last_answer,
    waits_for,
)
from pidispatch.domain.runs.run import WAITING, State
from pidispatch.domain.schedules.lateness import Lateness, lateness
from pidispatch.errors import ConfigurationRefused, PidispatchError
from pidispatch.store.database import Database
from pidispatch.store.keptfiles import KeptFilesToRead, bad_files
from pidispatch.store.read import budget as budgets
from pidispatch.store.read import detail as rundetail
from pidispatch.store.read import history
from pidispatch.store.read import queue as standing
from pidispatch.store.read.blockers import slot_facts, surroundings
from pidispatch.store.read.budget import BudgetRecord, BudgetWindow
from pidispatch.store.read.deliveries import DeliveryRecord
from pidispatch.store.read.detail import AttemptRecord, RunDetail, SessionRecord, WaitRecord
from pidispatch.store.read.history import NoSuchRun, RunRecord
from pidispatch.store.read.queue import HostRecord, QueueStatus
from pidispatch.store.read.schedule_history import SlotRecord, slot_of_run
from pidispatch.store.triggers.breakers import BreakerRecord, breaker_of_run

__all__ = [
    "AttemptRecord",
    "BreakerRecord",
    "BudgetRecord",
    "BudgetWindow",
    "DeliveryRecord",
    "Explanation",
    "HostRecord",
    "Lateness",
    "NoSuchRun",
    "PolicyUnreadable",
    "QueueStatus",
    "RunDetail",
    "RunRecord",
    "SessionRecord",
    "SlotRecord",
    "State",
    "WaitRecord",
    "budget",
    "detail",
    "explain",
    "runs",
    "standing_of",
]


class PolicyUnreadable(PidispatchError):
    """The files of limits cannot be read, so nothing can be said of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(f"the limits cannot be read: {'; '.join(problems)}")


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a run started, waits or was refused. `waits_for` is None for a run that does not wait.

    `wait` is what had to be true before anybody looked at it, None for most runs; `asked` is who asked for it. `breaker` is
    how its trigger stands, None while its last run went well.
    `slot` is the instant of a schedule that it was started for, and `lateness` how long after it. `red` is what of
    Redis keeps a waiting run from being heard of.
    """

    run: RunRecord
    answer: LastAnswer | None
    gates: Sequence[GateLine]
    waits_for: WaitsFor | None
    attempts: Sequence[AttemptRecord]
    wait: WaitRecord | None
    asked: Sequence[DeliveryRecord]
    session: SessionRecord
    breaker: BreakerRecord | None = None
    slot: SlotRecord | None = None
    lateness: Lateness | None = None
    red: Sequence[Fault] = ()


def runs(settings: Settings, *, limit: int, state: State | None = None) -> Sequence[RunRecord]:
    """The newest runs first. This and all below raise what `opened` raises."""
    with opened(settings) as database:
        return history.list_runs(database, limit=limit, state=state)


def detail(settings: Settings, name: str) -> RunDetail:
    """`name` is a run's public id, the beginning of one, or its number. Raises NoSuchRun."""
    with opened(settings) as database:
        return rundetail.run_detail(database, history.find_run(database, name).id)


def explain(settings: Settings, name: str) -> Explanation:
    """`name` as for `detail`. Raises NoSuchRun."""
    with opened(settings) as database:
        found = rundetail.run_detail(database, history.find_run(database, name).id)
        run, waits = found.run, None
        if run.state in WAITING:
            waiter = Waiter(run.state, run.cause, run.until, run.place)
            waits = waits_for(waiter, surroundings(database, run.id))
        breaker = breaker_of_run(database, run.id)
        slot, late = slot_of_run(database, run.id), slot_facts(database, run.id)
    return Explanation(
        run,
        last_answer(found.admission),
        gate_lines(found.admission),
        waits,
        found.attempts,
        found.wait,
        found.asked,
        found.session,
        breaker,
        slot,
        None if late is None else lateness(*late),
        red_of_redis(settings) if run.state in WAITING else (),
    )


def budget(settings: Settings) -> BudgetRecord:
    """Raises PolicyUnreadable."""
    with opened(settings) as database:
        policies = FilePolicies(settings, KeptFilesToRead(database, host=settings.worker_name))
        try:
            policy = policies.current()
        except ConfigurationRefused as error:
            raise PolicyUnreadable(error.problems) from error
        if not isinstance(policy, Policy):
            raise PolicyUnreadable(policies.problems() or (policy.reason,))
        return budgets.read_budget(database, policy.every_cap(), policy.names)


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
