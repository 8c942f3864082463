"""Decide what instants of schedules lead to where others ask for the same, with a few statements for all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import BigInteger, Connection, Float, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain import words
from pidispatch.domain.arrival import WINDOW, Arrival, Became, Step, There, decide
from pidispatch.domain.catchup import Slot, SlotState
from pidispatch.domain.identity import scheduled_run_id
from pidispatch.domain.run import NewRun
from pidispatch.domain.subject import RunSubject
from pidispatch.domain.triggers import WhileRunning
from pidispatch.store.cancelling import end_waiting
from pidispatch.store.ledger import lock_windows
from pidispatch.store.runs import REQUEST_STOP


def _texts(*names: str) -> tuple[Any, ...]:
    return tuple(bindparam(name, type_=ARRAY(Text)) for name in names)


# Subjects first, in one order: what an arrival or another planner does for one of them is seen below, or waits for us.
LOCK_SUBJECTS = text("""
INSERT INTO subjects (key, scope, item, lane)
SELECT key, scope, item, lane FROM unnest(:keys, :scopes, :items, :lanes) AS asked (key, scope, item, lane)
ORDER BY key COLLATE "C"
ON CONFLICT (key) DO UPDATE SET arrived_at = clock_timestamp()
""").bindparams(*_texts("keys", "scopes", "items", "lanes"))
# A young run that somebody else asked for. One that is stopped, failed or was refused does not do a schedule's work.
TOLD = text(f"""
SELECT asked.subject, told.id, told.public_id FROM unnest(:subjects) AS asked (subject), LATERAL (
  SELECT r.id, r.public_id FROM runs r
  WHERE r.subject = asked.subject AND r.created_at > clock_timestamp() - make_interval(secs => :window)
    AND (r.ended_at IS NULL AND r.stop_reason IS NULL OR r.outcome = 'completed')
    AND r.cause IS DISTINCT FROM '{words.CATCH_UP}'
    AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.run_id = r.id AND d.source = 'cron')
  ORDER BY r.id DESC LIMIT 1) AS told
""").bindparams(*_texts("subjects"), bindparam("window", type_=Float))  # noqa: S608 - fixed words
LIVE = text("""
SELECT r.trigger_id, r.id, r.public_id, r.stop_reason IS NOT NULL AS stops,
       r.state IN ('queued', 'deferred', 'held') AND r.started_at IS NULL AS waits
FROM runs r WHERE r.trigger_type = 'cron' AND r.trigger_id = ANY(:triggers) AND r.ended_at IS NULL
ORDER BY r.id FOR NO KEY UPDATE
""").bindparams(*_texts("triggers"))
# Nobody else writes the deliveries of a schedule, so that they may come after the runs that they name.
TELL = text("""
INSERT INTO deliveries (source, delivery_id, subject, decision, reason, run_id)
SELECT 'cron', told.delivery_id, told.subject, told.decision, told.reason,
       (SELECT id FROM runs WHERE public_id = told.run)
FROM unnest(:ids, :subjects, :decisions, :reasons, :runs) AS told (delivery_id, subject, decision, reason, run)
ON CONFLICT (source, delivery_id) DO NOTHING
""").bindparams(*_texts("ids", "subjects", "decisions", "reasons", "runs"))
STOP = REQUEST_STOP.bindparams(bindparam("id", type_=BigInteger))


@dataclass(frozen=True, slots=True)
class Instant:
    """One instant of a schedule. `arrival` is None where it leads to no run, whatever others ask for."""

    schedule: str
    slot: Slot
    arrival: Arrival | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """What becomes of an instant, and the run that answers for it (a public id).

    `slot` is as it is to be kept. `starts` is a run to be written, `stops` one that goes on and is to be stopped.
    """

    instant: Instant
    became: Became
    slot: Slot
    run: str | None = None
    starts: NewRun | None = None
    stops: There | None = None

    @property
    def slot_run(self) -> str | None:
        return self.run if self.slot.state in {SlotState.RAN, SlotState.DEFERRED} else None


def decide_all(connection: Connection, instants: Sequence[Instant]) -> list[Decided]:
    """In their order, as if they came one after the other. Locks their subjects, then the runs of schedules that skip
    or supersede.
    """
    arrivals = [each.arrival for each in instants if each.arrival is not None]
    if not arrivals:
        return [_without_run(each) for each in instants]
    lock_subjects(connection, [each.subject for each in arrivals])
    there = _There(connection, instants)
    return [
        _without_run(each) if each.arrival is None else _with_run(each, each.arrival, there)
        for each in instants
    ]


def tell(connection: Connection, decided: Sequence[Decided]) -> None:
    """Leave each instant's delivery, once the runs are written."""
    if not decided:
        return
    asked: dict[str, list[str | None]] = {
        "ids": [scheduled_run_id(each.instant.schedule, each.slot.planned_at) for each in decided],
        "subjects": [_subject(each.instant) for each in decided],
        "decisions": [str(each.became) for each in decided],
        "reasons": [each.slot.reason for each in decided],
        "runs": [each.run for each in decided],
    }
    connection.execute(TELL, asked)


def _subject(instant: Instant) -> str | None:
    return None if instant.arrival is None else instant.arrival.subject.key


def stop_superseded(connection: Connection, decided: Sequence[Decided]) -> None:
    """Last of all, since a run that is to be tried again ends here, and closes what it held in windows."""
    waiting = []
    for each in decided:
        if each.stops is not None:
            asked = {"id": each.stops.run_id, "reason": words.SUPERSEDED}
            if connection.execute(STOP, asked).rowcount == 0:
                waiting.append(each.stops.run_id)
    if waiting:
        lock_windows(connection, waiting)
    for run_id in waiting:
        end_waiting(connection, run_id, words.SUPERSEDED)


class _There:
    """The runs that are there: `told` by subject, `live` by the schedule that started them."""

    def __init__(self, connection: Connection, instants: Sequence[Instant]) -> None:
        punctual, careful = set(), set()
        for each in instants:
            if each.arrival is not None and each.slot.state is SlotState.RAN:
                punctual.add(each.arrival.subject.key)
            if each.arrival is not None and _looks(each.arrival):
                careful.add(each.arrival.run.trigger_id)
        self.told: dict[str, There] = {}
        self.live: dict[str | None, list[There]] = {trigger: [] for trigger in careful}
        if punctual:
            asked = {"subjects": sorted(punctual), "window": WINDOW}
            for row in connection.execute(TOLD, asked):
                self.told[row.subject] = There(row.id, row.public_id, waits=False)
        if careful:
            for row in connection.execute(LIVE, {"triggers": list(careful)}):
                self.live[row.trigger_id].append(There(row.id, row.public_id, row.waits, row.stops))

    def step(self, slot: Slot, arrival: Arrival) -> Step:
        """A run that was asked for elsewhere answers for one punctual instant. What is made up was asked for before."""
        told = self.told.pop(arrival.subject.key, None) if slot.state is SlotState.RAN else None
        live = self.live.get(arrival.run.trigger_id, []) if _looks(arrival) else []
        step = decide(arrival.while_running, tuple(live), told)
        if step.kind is Became.SUPERSEDING and step.at is not None:
            live[live.index(step.at)] = replace(step.at, stops=True)
        return step

    def started(self, run: NewRun) -> None:
        if run.trigger_id in self.live:
            self.live[run.trigger_id].append(There(0, run.public_id, waits=True))


def _looks(arrival: Arrival) -> bool:
    return arrival.while_running in {WhileRunning.SKIP, WhileRunning.SUPERSEDE}


def lock_subjects(connection: Connection, subjects: Iterable[RunSubject]) -> None:
    """In one order, whoever does it; those that are locked already by this transaction may be among them."""
    found = list({each.key: each for each in subjects}.items())
    if not found:
        return
    asked = {
        "keys": [key for key, _ in found],
        "scopes": [subject.scope for _, subject in found],
        "items": [subject.item for _, subject in found],
        "lanes": [subject.lane for _, subject in found],
    }
    connection.execute(LOCK_SUBJECTS, asked)


def _without_run(instant: Instant) -> Decided:
    return Decided(instant, Became.DROPPED, instant.slot)


def _with_run(instant: Instant, arrival: Arrival, there: _There) -> Decided:
    slot = instant.slot
    step = there.step(slot, arrival)
    other = step.joins if step.kind is Became.SUPERSEDING else step.at
    match step.kind:
        case Became.SKIPPED if other is not None:
            slot = Slot(slot.planned_at, SlotState.SKIPPED, words.WHILE_RUNNING)
            return Decided(instant, Became.SKIPPED, slot, other.public_id)
        case Became.COALESCED | Became.SUPERSEDING if other is not None:
            stops = step.at if step.kind is Became.SUPERSEDING else None
            slot = replace(slot, reason=words.COALESCED)
            return Decided(instant, step.kind, slot, other.public_id, stops=stops)
        case _:
            run = replace(arrival.run, subject=arrival.subject.key)
            there.started(run)
            stops = step.at if step.kind is Became.SUPERSEDING else None
            return Decided(instant, step.kind, slot, run.public_id, starts=run, stops=stops)
