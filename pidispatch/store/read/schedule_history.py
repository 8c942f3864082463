"""Read what was planned, and what became of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Text, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import ALIVE_SECONDS
from pidispatch.store.rows import record

SLOT = """
SELECT s.schedule, s.planned_at, s.state, s.reason, s.decided_at, r.public_id AS run, r.state AS run_state, r.outcome,
       r.reason AS run_reason, r.cause, r.not_before, r.started_at, r.ended_at, c.zone
FROM schedule_slots s LEFT JOIN runs r ON r.id = s.run_id LEFT JOIN schedules c ON c.id = s.schedule
"""
LATEST = text(f"{SLOT} WHERE s.schedule = :schedule ORDER BY s.planned_at DESC LIMIT :most")
OF_RUN = text(f"{SLOT} WHERE s.run_id = :run ORDER BY s.planned_at")
NEWEST = text(f"""
SELECT newest.* FROM unnest(:schedules) AS asked (id), LATERAL (
  {SLOT} WHERE s.schedule = asked.id ORDER BY s.planned_at DESC LIMIT 1) AS newest
""").bindparams(bindparam("schedules", type_=ARRAY(Text)))  # noqa: S608 - fixed words
SCHEDULES = text(f"""
SELECT s.id, s.host, s.served, s.place, s.pattern, s.zone, s.zone_of, s.missed, s.next_at, s.created_at, s.changed_at, s.removed_at,
       coalesce(h.heartbeat_at > clock_timestamp() - interval '{ALIVE_SECONDS} seconds', false) AS alive
FROM schedules s LEFT JOIN hosts h ON h.name = s.host WHERE s.removed_at IS NULL ORDER BY s.host, s.place, s.id
""")  # noqa: S608 - a number


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """One instant and what became of it; from `run` on, the run that answers for it, as it is now.
    With `reason` coalesced somebody else had asked for that run.

    It ran late when `started_at` is later than `planned_at`: by `reason` if it was made up for, by `cause` and
    `not_before` while it waits. `zone` is the schedule's now.
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
    zone: str | None


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule that some host plans. `served` is false where that host has not its folder, `alive` where it is silent."""

    id: str
    host: str
    served: bool
    place: int
    pattern: str
    zone: str
    zone_of: str | None
    missed: str
    next_at: datetime | None
    created_at: datetime
    changed_at: datetime
    removed_at: datetime | None
    alive: bool


def latest_slots(database: Database, schedule: str, most: int = 10) -> Sequence[SlotRecord]:
    """The newest first. Raises DatabaseUnavailable."""
    return _slots(database, LATEST, {"schedule": schedule, "most": most})


def newest_slots(database: Database, schedules: Sequence[str]) -> Mapping[str, SlotRecord]:
    """The newest of each schedule that has one. Raises DatabaseUnavailable."""
    found = _slots(database, NEWEST, {"schedules": list(schedules)})
    return {slot.schedule: slot for slot in found}


def slot_of_run(database: Database, run_id: int) -> SlotRecord | None:
    """The first instant that a run answers for; None for a run that no schedule asked for. Raises DatabaseUnavailable."""
    return next(iter(_slots(database, OF_RUN, {"run": run_id})), None)


def schedules_of(database: Database) -> Sequence[ScheduleRecord]:
    """Those that are planned, by host and place in the file. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        return [record(ScheduleRecord, row) for row in connection.execute(SCHEDULES)]


def _slots(database: Database, statement: TextClause, asked: dict[str, object]) -> Sequence[SlotRecord]:
    with database.transaction() as connection:
        return [record(SlotRecord, row) for row in connection.execute(statement, asked)]
