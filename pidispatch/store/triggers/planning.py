"""Write the slots of several schedules and the runs they start, with a few statements for all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, DateTime, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain import words
from pidispatch.domain.schedules.timetable import Timetable
from pidispatch.domain.triggers.arrival import Arrival, Became
from pidispatch.domain.triggers.catchup import MOST_MADE_UP, Slot, SlotState, decide
from pidispatch.domain.triggers.inforce import MakeRun, ScheduleEntry, Unrunnable
from pidispatch.domain.triggers.trigger import Missed
from pidispatch.store.runs.submissions import add_runs
from pidispatch.store.triggers.instants import (
    Decided,
    Instant,
    decide_all,
    lock_subjects,
    stop_superseded,
    tell,
)
from pidispatch.store.triggers.probes import Probes

CHUNK = 500  # instants of one schedule in one go

# An instant can come twice: the clock was put back, or an entry was removed and written again.
DECIDED = text("""
SELECT s.schedule, s.planned_at FROM unnest(:schedules, :instants) AS asked (schedule, planned_at)
JOIN schedule_slots s USING (schedule, planned_at)
""").bindparams(
    bindparam("schedules", type_=ARRAY(Text)), bindparam("instants", type_=ARRAY(DateTime(timezone=True)))
)
PREVIOUS = text("""
SELECT asked.schedule, last.at FROM unnest(:schedules) AS asked (schedule), LATERAL (
  SELECT coalesce(r.ended_at, r.started_at) AS at FROM schedule_slots s JOIN runs r ON r.id = s.run_id
  WHERE s.schedule = asked.schedule AND coalesce(r.ended_at, r.started_at) IS NOT NULL
  ORDER BY s.planned_at DESC LIMIT 1) AS last
""").bindparams(bindparam("schedules", type_=ARRAY(Text)))
ADD_SLOTS = text("""
INSERT INTO schedule_slots (schedule, planned_at, state, reason, run_id, decided_at)
SELECT s.schedule, s.planned_at, s.state, s.reason, r.id, :now
FROM unnest(:schedules, :instants, :states, :reasons, :runs) AS s (schedule, planned_at, state, reason, run)
LEFT JOIN runs r ON r.public_id = s.run
""").bindparams(
    bindparam("schedules", type_=ARRAY(Text)),
    bindparam("instants", type_=ARRAY(DateTime(timezone=True))),
    bindparam("states", type_=ARRAY(Text)),
    bindparam("reasons", type_=ARRAY(Text)),
    bindparam("runs", type_=ARRAY(Text)),
    bindparam("now", type_=DateTime(timezone=True)),
)
MOVE = text("""
UPDATE schedules s SET planned_until = m.planned_until, next_at = m.next_at
FROM unnest(:ids, :untils, :nexts) AS m (id, planned_until, next_at) WHERE s.id = m.id
""").bindparams(
    bindparam("ids", type_=ARRAY(Text)),
    bindparam("untils", type_=ARRAY(DateTime(timezone=True))),
    bindparam("nexts", type_=ARRAY(DateTime(timezone=True))),
)


class Batch:
    """What one transaction decides. The rows of its schedules are locked by the caller."""

    def __init__(self, connection: Connection, make: MakeRun, now: datetime) -> None:
        self._connection = connection
        self._make = make
        self._now = now
        self._decided: list[tuple[str, Slot, ScheduleEntry | None]] = []
        self._moves: dict[str, tuple[datetime, datetime | None]] = {}

    def add(
        self, schedule: str, timetable: Timetable, since: datetime, entry: ScheduleEntry, missed: Missed
    ) -> datetime:
        """Decide what has come of one schedule later than `since`; returns up to when."""
        come, following = timetable.come(since, self._now, CHUNK + MOST_MADE_UP)
        instants = come[:CHUNK]
        later = come[CHUNK:]
        for slot in decide(schedule, instants, later=len(later), now=self._now, missed=missed):
            self._decided.append((schedule, slot, entry))
        until, upcoming = (instants[-1], later[0]) if later else (self._now, following)
        self._moves[schedule] = until, upcoming
        return until

    def skip(self, schedule: str, slots: Sequence[Slot]) -> None:
        """Slots that lead to no run."""
        self._decided += [(schedule, slot, None) for slot in slots]

    def write(self) -> int:
        """Returns how many runs may start at once."""
        fresh = self._undecided()
        previous = self._previous({schedule for schedule, slot, _ in fresh if _starts(slot)})
        decided = decide_all(
            self._connection,
            [self._instant(schedule, slot, entry, previous.get(schedule)) for schedule, slot, entry in fresh],
        )
        probes = Probes(self._connection, _triggers_of(decided), self._now)
        decided = _held_back(decided, probes)
        runs = [each.starts for each in decided if each.starts is not None]
        add_runs(self._connection, runs)
        self._add_slots(decided)
        self._move()
        probes.write()
        tell(self._connection, decided)
        stop_superseded(self._connection, decided)
        return sum(run.cause is None for run in runs)

    def _instant(
        self, schedule: str, slot: Slot, entry: ScheduleEntry | None, previous: datetime | None
    ) -> Instant:
        if entry is None or not _starts(slot):
            return Instant(schedule, slot)
        made = self._make(entry, slot, previous)
        if isinstance(made, Unrunnable):
            return Instant(schedule, Slot(slot.planned_at, SlotState.SKIPPED, made.reason))
        return Instant(schedule, slot, made)

    def _add_slots(self, decided: Sequence[Decided]) -> None:
        if not decided:
            return
        slots = [each.slot for each in decided]
        asked = {
            "schedules": [each.instant.schedule for each in decided],
            "instants": [slot.planned_at for slot in slots],
            "states": [slot.state.value for slot in slots],
            "reasons": [slot.reason for slot in slots],
            "runs": [each.slot_run for each in decided],
        }
        self._connection.execute(ADD_SLOTS, {**asked, "now": self._now})

    def _move(self) -> None:
        if not self._moves:
            return
        untils, nexts = zip(*self._moves.values(), strict=True)
        moved = {"ids": list(self._moves), "untils": list(untils), "nexts": list(nexts)}
        self._connection.execute(MOVE, moved)

    def _undecided(self) -> list[tuple[str, Slot, ScheduleEntry | None]]:
        if not self._decided:
            return []
        asked = {
            "schedules": [schedule for schedule, _, _ in self._decided],
            "instants": [slot.planned_at for _, slot, _ in self._decided],
        }
        known = {(row.schedule, row.planned_at) for row in self._connection.execute(DECIDED, asked)}
        return [each for each in self._decided if (each[0], each[1].planned_at) not in known]

    def _previous(self, schedules: set[str]) -> dict[str, datetime]:
        if not schedules:
            return {}
        rows = self._connection.execute(PREVIOUS, {"schedules": sorted(schedules)})
        return {row.schedule: row.at for row in rows}


def _triggers_of(decided: Iterable[Decided]) -> set[str]:
    starts = (each.starts for each in decided)
    return {run.trigger_id for run in starts if run is not None and run.trigger_id is not None}


def _held_back(decided: Sequence[Decided], probes: Probes) -> list[Decided]:
    """What a breaker does not let start is skipped, and so is what would have joined it."""
    held = {
        each.starts.public_id for each in decided if each.starts is not None and not probes.lets(each.starts)
    }
    return [_skipped(each, words.BREAKER_OPEN) if each.run in held else each for each in decided]


def _skipped(decided: Decided, reason: str) -> Decided:
    slot = Slot(decided.slot.planned_at, SlotState.SKIPPED, reason)
    return replace(decided, became=Became.SKIPPED, slot=slot, run=None, starts=None, stops=None)


def lock_ahead(
    connection: Connection, make: MakeRun, entries: Sequence[ScheduleEntry], now: datetime
) -> None:
    """Lock the subjects of several batches that are to be written one after the other: theirs would come out of order."""
    made = [make(entry, Slot(now, SlotState.RAN), None) for entry in entries]
    lock_subjects(connection, [each.subject for each in made if isinstance(each, Arrival)])


def _starts(slot: Slot) -> bool:
    return slot.state in {SlotState.RAN, SlotState.DEFERRED}
