"""Say what an event would start, entry by entry and gate by gate, and start nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pidispatch.app.installation import Installation
from pidispatch.app.triggers import read_triggers
from pidispatch.domain.runs.names import trigger_name
from pidispatch.domain.triggers.arrival import ArrivalStep, decide, replica_subject
from pidispatch.domain.triggers.event import Event, problem_of
from pidispatch.domain.triggers.eventfile import parse_event
from pidispatch.domain.triggers.matching import match, verdicts
from pidispatch.domain.triggers.verdicts import Dropped, Match, Verdict
from pidispatch.errors import ConfigurationRefused, PidispatchError
from pidispatch.files.reading import read
from pidispatch.store.triggers.breakers import BreakerRecord, breakers_of
from pidispatch.store.triggers.rehearsals import SpentRecord, live_runs, spent_by
from pidispatch.upkeep.scheduledruns import beyond

__all__ = ["BreakerRecord", "Rehearsal", "Rows", "SpentRecord", "WouldStart", "event_in", "rehearse"]


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows say now of the run that would start. `step` is what `while_running` makes of the event."""

    spent: SpentRecord | None
    step: ArrivalStep
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
    """`dropped` is the word that is kept when nothing starts. With a fault of the event no entry is asked.

    `without_rows` says why the rows cannot be asked.
    """

    file: str
    event: Event
    verdicts: Sequence[Verdict] = ()
    dropped: str | None = None
    would: WouldStart | None = None
    without_rows: str | None = None


def event_in(path: Path) -> Event:
    """Raises ConfigurationRefused."""
    content = read(path).data
    if content is None:
        raise ConfigurationRefused([f"{path}: does not exist; give a file with an event, or - to read one"])
    return parse_event(content, str(path))


def rehearse(here: Installation, event: Event) -> Rehearsal:
    """Raises ConfigurationRefused for a file of triggers that a worker would refuse, or where there is none."""
    settings = here.settings
    if settings.triggers_file is None:
        raise ConfigurationRefused(
            ["PI_TRIGGERS_FILE is not set, so no event starts anything; name the file"]
        )
    triggers = read_triggers(settings)
    file = str(settings.triggers_file)
    told = () if problem_of(event) is not None else verdicts(event, triggers)
    answer = match(event, triggers)
    if isinstance(answer, Dropped):
        return Rehearsal(file, event, told, answer.reason)
    rows, without_rows = None, None
    try:
        rows = _rows(here, answer)
    except PidispatchError as error:
        without_rows = str(error)
    would = WouldStart(answer, beyond(answer.trigger.work), rows)
    return Rehearsal(file, event, told, None, would, without_rows)


def _rows(here: Installation, found: Match) -> Rows:
    name = trigger_name(found.trigger.identity)
    spent = None if found.one_shot is None else spent_by(here.database, found.one_shot)
    live = live_runs(here.database, _subjects(found))
    breaker = breakers_of(here.database, [name]).get(name)
    return Rows(spent, decide(found.trigger.while_running, live, None), breaker)


def _subjects(found: Match) -> Sequence[str]:
    """Replicas go on side by side, each about a subject of its own; the first one tells of all."""
    key = found.subject().key
    return [key if found.trigger.work.replicas is None else replica_subject(key, 1)]
