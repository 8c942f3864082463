"""Say what an event would start, entry by entry and gate by gate, and start nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pidispatch.app.databases import opened
from pidispatch.app.triggers import read_triggers
from pidispatch.config import Settings
from pidispatch.domain.arrival import Step, decide
from pidispatch.domain.event import Event, problem_of
from pidispatch.domain.files.eventfile import parse_event
from pidispatch.domain.identity import trigger_name
from pidispatch.domain.matching import verdicts
from pidispatch.domain.replicas import replica_subject
from pidispatch.domain.verdicts import Match, Verdict
from pidispatch.errors import ConfigurationRefused, PidispatchError
from pidispatch.files.reading import read
from pidispatch.store.breakers import BreakerRecord, breakers_of
from pidispatch.store.rehearsals import SpentRecord, live_runs, spent_by
from pidispatch.upkeep.scheduledruns import beyond

__all__ = ["BreakerRecord", "Rehearsal", "Rows", "SpentRecord", "WouldStart", "event_in", "rehearse"]


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows say now of the run that would start. `step` is what `while_running` makes of the event."""

    spent: SpentRecord | None
    step: Step
    breaker: BreakerRecord | None


@dataclass(frozen=True, slots=True)
class WouldStart:
    """The entry that answers, and what stands in the way of its run. `rows` is None where they cannot be asked."""

    match: Match
    not_enforced: tuple[str, ...]
    rows: Rows | None = None

    @property
    def target(self) -> str:
        return f"{self.match.repo}{self.match.subject().item}"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`problem` is the event's own, for which no entry is asked. `without_rows` says why the rows cannot be asked."""

    file: str
    event: Event
    problem: str | None
    verdicts: Sequence[Verdict] = ()
    would: WouldStart | None = None
    without_rows: str | None = None


def event_in(path: Path) -> Event:
    """Raises ConfigurationRefused."""
    content = read(path).data
    if content is None:
        raise ConfigurationRefused([f"{path}: does not exist; give a file with an event, or - to read one"])
    return parse_event(content, str(path))


def rehearse(settings: Settings, event: Event) -> Rehearsal:
    """Raises ConfigurationRefused for a file of triggers that a worker would refuse, or where there is none."""
    if settings.triggers_file is None:
        raise ConfigurationRefused(
            ["PI_TRIGGERS_FILE is not set, so no event starts anything; name the file"]
        )
    triggers = read_triggers(settings)
    file, problem = str(settings.triggers_file), problem_of(event)
    if problem is not None:
        return Rehearsal(file, event, problem)
    told = verdicts(event, triggers)
    match = next((each for each in told if isinstance(each, Match)), None)
    if match is None:
        return Rehearsal(file, event, None, told)
    rows, without_rows = None, None
    try:
        rows = _rows(settings, match)
    except PidispatchError as error:
        without_rows = str(error)
    would = WouldStart(match, beyond(match.trigger.work), rows)
    return Rehearsal(file, event, None, told, would, without_rows)


def _rows(settings: Settings, match: Match) -> Rows:
    name = trigger_name(match.trigger.identity)
    with opened(settings) as database:
        spent = None if match.one_shot is None else spent_by(database, match.one_shot)
        live = live_runs(database, _subjects(match))
        breaker = breakers_of(database, [name]).get(name)
    return Rows(spent, decide(match.trigger.while_running, live, None), breaker)


def _subjects(match: Match) -> Sequence[str]:
    """Replicas go on side by side, each about a subject of its own; the first one tells of all."""
    key = match.subject().key
    return [key if match.trigger.work.replicas is None else replica_subject(key, 1)]
