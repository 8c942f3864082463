"""Write the slots of several schedules and the runs they start, with a few statements for all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, DateTime, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain import words
from pidispatch.domain.arrival import Arrival, Became
from pidispatch.domain.catchup import MOST_MADE_UP, Slot, SlotState, decide
from pidispatch.domain.run import NewRun
from pidispatch.domain.schedule import Timetable
from pidispatch.domain.standing import Entry
from pidispatch.domain.triggers import Missed
from pidispatch.ports import MakeRun, Unrunnable
from pidispatch.store.instants import Decided, Instant, decide_all, lock_subjects, stop_superseded, tell
from pidispatch.store.probes import Probes
from pidispatch.store.submissions import add_runs

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
ADD_SLOT = text("""
INSERT INTO schedule_slots (schedule, planned_at, state, reason, run_id, decided_at)
VALUES (:schedule, :planned_at, :state, :reason, (SELECT id FROM runs WHERE public_id = :run), :now)
""")
MOVE = text("UPDATE schedules SET planned_until = :planned_until, next_at = :next_at WHERE id = :id")


class Batch:
    """What one transaction decides. The rows of its schedules are locked by the caller."""

    def __init__(self, connection: Connection, make: MakeRun, now: datetime) -> None:
        self._connection = connection
        self._make = make
        self._now = now
        self._decided: list[tuple[str, Slot, Entry | None]] = []
        self._moves: list[dict[str, Any]] = []

    def add(
        self, schedule: str, timetable: Timetable, since: datetime, entry: Entry, missed: Missed
    ) -> datetime:
        """Decide what has come of one schedule later than `since`; returns up to when."""
        come, following = timetable.come(since, self._now, CHUNK + MOST_MADE_UP)
        instants = come[:CHUNK]
        later = come[CHUNK:]
        for slot in decide(schedule, instants, later=len(later), now=self._now, missed=missed):
            self._decided.append((schedule, slot, entry))
        until, upcoming = (instants[-1], later[0]) if later else (self._now, following)
        self._moves.append({"id": schedule, "planned_until": until, "next_at": upcoming})
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
        self._write(runs, [self._kept(each) for each in decided])
        probes.write()
        tell(self._connection, decided)
        stop_superseded(self._connection, decided)
        return sum(run.cause is None for run in runs)

    def _instant(self, schedule: str, slot: Slot, entry: Entry | None, previous: datetime | None) -> Instant:
        if entry is None or not _starts(slot):
            return Instant(schedule, slot)
        made = self._make(entry, slot, previous)
        if isinstance(made, Unrunnable):
            return Instant(schedule, Slot(slot.planned_at, SlotState.SKIPPED, made.reason))
        return Instant(schedule, slot, made)

    def _kept(self, decided: Decided) -> dict[str, Any]:
        slot = decided.slot
        return {
            "schedule": decided.instant.schedule,
            "planned_at": slot.planned_at,
            "state": slot.state.value,
            "reason": slot.reason,
            "run": decided.slot_run,
            "now": self._now,
        }

    def _write(self, runs: Sequence[NewRun], slots: list[dict[str, Any]]) -> None:
        add_runs(self._connection, runs)
        for statement, several in ((ADD_SLOT, slots), (MOVE, self._moves)):
            if several:
                self._connection.execute(statement, several)

    def _undecided(self) -> list[tuple[str, Slot, Entry | None]]:
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


def lock_ahead(connection: Connection, make: MakeRun, entries: Sequence[Entry], now: datetime) -> None:
    """Lock the subjects of several batches that are to be written one after the other: theirs would come out of order."""
    made = [make(entry, Slot(now, SlotState.RAN), None) for entry in entries]
    lock_subjects(connection, [each.subject for each in made if isinstance(each, Arrival)])


def _starts(slot: Slot) -> bool:
    return slot.state in {SlotState.RAN, SlotState.DEFERRED}
