"""Say how late a run of a schedule is, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pidispatch.domain import words

PUNCTUAL = timedelta(seconds=2)  # a look at the rows, a bell and a box take that long
RIGHT_AFTER = timedelta(seconds=10)


class Why(StrEnum):
    NOT_PLANNED = "not-planned-in-time"
    CATCH_UP = str(words.CATCH_UP)
    PAUSED = str(words.PAUSED)
    FOLDER_BUSY = "folder-busy"
    TRIED_AGAIN = "tried-again"
    WAITED = "waited-for-its-turn"
    PREPARED = "prepared"


@dataclass(frozen=True, slots=True)
class SlotFacts:
    """What the rows know of the time between an instant and the go of its run.

    `admitted_at` is of the first attempt. `busy_with` worked in the folder until `busy_until`, and `paused_until` is
    when a pause that concerns the run was lifted: both the last between the instant and the admission.
    """

    planned_at: datetime
    decided_at: datetime
    reason: str | None = None
    admitted_at: datetime | None = None
    started_at: datetime | None = None
    attempts: int = 0
    busy_with: str | None = None
    busy_until: datetime | None = None
    paused_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that made it late: until when it held the run, and which other run it was."""

    word: Why
    until: datetime | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Lateness:
    """`seconds` from the instant to its go, or to now while `started` is false."""

    seconds: float
    started: bool
    causes: tuple[Cause, ...] = ()


def lateness(facts: SlotFacts, now: datetime) -> Lateness:
    late = (facts.started_at or now) - facts.planned_at
    causes = tuple(_causes(facts)) if late > PUNCTUAL else ()
    return Lateness(round(late.total_seconds(), 3), facts.started_at is not None, causes)


def _causes(facts: SlotFacts) -> Iterator[Cause]:
    if facts.decided_at - facts.planned_at > PUNCTUAL:
        yield Cause(Why.NOT_PLANNED, facts.decided_at)
    held = list(_holds(facts))
    yield from held
    if facts.admitted_at is None:
        return
    if not held and facts.admitted_at - facts.decided_at > PUNCTUAL:
        yield Cause(Why.WAITED, facts.admitted_at)
    if facts.started_at is not None and facts.started_at - facts.admitted_at > PUNCTUAL:
        yield Cause(Why.TRIED_AGAIN if facts.attempts > 1 else Why.PREPARED, facts.started_at)


def _holds(facts: SlotFacts) -> Iterator[Cause]:
    if facts.reason == Why.CATCH_UP:
        yield Cause(Why.CATCH_UP)
    if facts.paused_until is not None and _mattered(facts, facts.paused_until):
        yield Cause(Why.PAUSED, facts.paused_until)
    if facts.busy_with is not None and facts.busy_until is not None and _mattered(facts, facts.busy_until):
        yield Cause(Why.FOLDER_BUSY, facts.busy_until, facts.busy_with)


def _mattered(facts: SlotFacts, until: datetime) -> bool:
    """What is made up for waits anyhow: until when is not kept, but what ended right before its start held it too."""
    if facts.reason != Why.CATCH_UP:
        return True
    return facts.admitted_at is not None and facts.admitted_at - until <= RIGHT_AFTER
