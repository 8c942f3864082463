"""Read what was planned, and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import TextClause, text

from pidispatch.store.database import Database

SLOT = """
SELECT s.schedule, s.planned_at, s.state, s.reason, s.decided_at, r.public_id AS run, r.state AS run_state, r.outcome,
       r.reason AS run_reason, r.cause, r.not_before, r.started_at, r.ended_at
FROM schedule_slots s LEFT JOIN runs r ON r.id = s.run_id
"""
LATEST = text(f"{SLOT} WHERE s.schedule = :schedule ORDER BY s.planned_at DESC LIMIT :most")
OF_RUN = text(f"{SLOT} WHERE s.run_id = :run ORDER BY s.planned_at")
SCHEDULES = text("""
SELECT id, host, served, place, pattern, zone, missed, next_at, created_at, changed_at, removed_at
FROM schedules WHERE removed_at IS NULL ORDER BY host, place, id
""")


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """One instant and what became of it; from `run` on, the run that answers for it, as it is now.
    With `reason` coalesced somebody else had asked for that run.

    It ran late when `started_at` is later than `planned_at`: by `reason` if it was made up for, by `cause` and
    `not_before` while it waits.
    """

    schedule: str
    planned_at: datetime
    state: str
    reason: str | None
    decided_at: datetime
    run: str | None
    run_state: str | None
    outcome: str | None
    run_reason: str | None
    cause: str | None
    not_before: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule that some host plans. `served` is false where that host has not its folder."""

    id: str
    host: str
    served: bool
    place: int
    pattern: str
    zone: str
    missed: str
    next_at: datetime | None
    created_at: datetime
    changed_at: datetime
    removed_at: datetime | None


def latest_slots(database: Database, schedule: str, most: int = 10) -> Sequence[SlotRecord]:
    """The newest first. Raises DatabaseUnavailable."""
    return _slots(database, LATEST, {"schedule": schedule, "most": most})


def slot_of_run(database: Database, run_id: int) -> SlotRecord | None:
    """The first instant that a run answers for; None for a run that no schedule asked for. Raises DatabaseUnavailable."""
    return next(iter(_slots(database, OF_RUN, {"run": run_id})), None)


def schedules_of(database: Database) -> Sequence[ScheduleRecord]:
    """Those that are planned, by host and place in the file. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        return [ScheduleRecord(*row) for row in connection.execute(SCHEDULES)]


def _slots(database: Database, statement: TextClause, asked: dict[str, object]) -> Sequence[SlotRecord]:
    with database.transaction() as connection:
        return [SlotRecord(*row) for row in connection.execute(statement, asked)]
