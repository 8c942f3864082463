"""Say from the rows why a run started, waits or was refused."""

from collections.abc import Sequence
from dataclasses import dataclass

from pidispatch.app.installation import Installation
from pidispatch.app.verbs.read import detail
from pidispatch.domain.health.health import Fault, redis_faults
from pidispatch.domain.runs.explain import (
    GateLine,
    LastAnswer,
    Waiter,
    WaitsFor,
    gate_lines,
    last_answer,
    waits_for,
)
from pidispatch.domain.runs.run import WAITING
from pidispatch.domain.schedules.lateness import Lateness, lateness
from pidispatch.store.read.blockers import slot_facts, surroundings
from pidispatch.store.read.deliveries import DeliveryRecord
from pidispatch.store.read.detail import AttemptRecord, SessionRecord, WaitRecord
from pidispatch.store.read.history import RunRecord
from pidispatch.store.read.schedule_history import SlotRecord, slot_of_run
from pidispatch.store.triggers.breakers import BreakerRecord, breaker_of_run

__all__ = [
    "AttemptRecord",
    "BreakerRecord",
    "DeliveryRecord",
    "Explanation",
    "Lateness",
    "RunRecord",
    "SessionRecord",
    "SlotRecord",
    "WaitRecord",
    "explain",
]


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


def explain(here: Installation, name: str) -> Explanation:
    """`name` as for `read.detail`. Raises NoSuchRun, and as `Installation.database`."""
    found, database = detail(here, name), here.database
    run, waits, red = found.run, None, None
    if run.state in WAITING:
        waiter = Waiter(run.state, run.cause, run.until, run.place)
        waits = waits_for(waiter, surroundings(database, run.id))
        red = here.redis_facts()
    late = slot_facts(database, run.id)
    return Explanation(
        run,
        last_answer(found.admission),
        gate_lines(found.admission),
        waits,
        found.attempts,
        found.wait,
        found.asked,
        found.session,
        breaker_of_run(database, run.id),
        slot_of_run(database, run.id),
        None if late is None else lateness(*late),
        () if red is None else tuple(redis_faults(red)),
    )
