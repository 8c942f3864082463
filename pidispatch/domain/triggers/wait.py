"""Decide on a run that waits for something named: may it start, when is it asked after again, when is it given up."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pidispatch.domain import words
from pidispatch.domain.names import is_name
from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.triggers.grammar.waitfor import CONDITIONS_MAX, instant_of

Condition = WaitAfter | WaitProfile


SOON = timedelta(seconds=1)  # an instant this near has come
SHORTEST = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=15)
CUT_SHORT = timedelta(seconds=11)  # when a check that we broke off ourselves is made again
JITTER = 0.1
MOST_DOUBLINGS = 40  # far beyond the longest pause, and no number grows without bound


class WaitAnswer(StrEnum):
    """What a check program says by its exit code."""

    GO = "go"
    NOT_YET = "not-yet"
    NEVER = "never"
    FAULT = "fault"


def answer_of(exit_code: int | None) -> WaitAnswer:
    """0, 3 and 2 say something; anything else, and a program that was killed (None), is no answer."""
    match exit_code:
        case 0:
            return WaitAnswer.GO
        case 3:
            return WaitAnswer.NOT_YET
        case 2:
            return WaitAnswer.NEVER
        case _:
            return WaitAnswer.FAULT


@dataclass(frozen=True, slots=True)
class WaitBounds:
    """How long and how often is asked. `wait_max` is counted from the first answer that was not go."""

    interval: timedelta = timedelta(minutes=1)
    wait_max: timedelta = timedelta(hours=24)
    after_max: timedelta = timedelta(days=30)
    checks_max: int = 96
    faults_max: int = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """What was asked so far. `held_since` is the first hold of any kind; `faults` are those in a row.

    `last_profile` gave `last_answer` at `last_at`.
    """

    held_since: datetime | None = None
    asked_since: datetime | None = None
    checks: int = 0
    faults: int = 0
    last_profile: str | None = None
    last_answer: WaitAnswer | None = None
    last_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HeldRun:
    """One held run, claimed for a look. `conditions` None: this version cannot read them. `now` is Postgres's clock.

    `started_by` and `held_by` are runs of the same `key`: one that was held and let go a moment ago, and one that is
    being asked after.
    """

    run_id: int
    public_id: str
    epoch: int
    target: str
    pinned_host: str | None
    key: str | None
    conditions: tuple[Condition, ...] | None
    asking: bool
    progress: Progress
    now: datetime
    started_by: int | None = None
    held_by: int | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing is waited for any more."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class Hold:
    """Look again at `until`; with `asking` the programs are asked then."""

    until: datetime
    progress: Progress
    asking: bool


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It will never start. `for_run` is the run that does the same work."""

    reason: str
    progress: Progress
    for_run: int | None = None


@dataclass(frozen=True, slots=True)
class AskPrograms:
    """Every condition that needs no program is met; these programs are asked, in this order."""

    profiles: tuple[str, ...]


Step = Start | Hold | GiveUp


def first_step(held: HeldRun, *, profiles: Collection[str], bounds: WaitBounds) -> Step | AskPrograms:
    """Everything that is decided without a program, in the reference's order. `profiles` are those declared here."""
    progress = held.progress
    if held.started_by is not None:
        return GiveUp(words.WAIT_SUPERSEDED, progress, held.started_by)
    if held.conditions is None:
        return GiveUp(words.WAIT_UNREADABLE, progress)
    named = tuple(each.name for each in held.conditions if isinstance(each, WaitProfile))
    if not set(named) <= set(profiles):
        return GiveUp(words.WAIT_PROFILE_UNKNOWN, progress)
    instant = max((each.instant for each in held.conditions if isinstance(each, WaitAfter)), default=held.now)
    if progress.held_since is None and instant - held.now > bounds.after_max:
        return GiveUp(words.WAIT_AFTER_BEYOND_MAX, progress)
    if instant - held.now > SOON:
        return Hold(instant, _first_held(progress, held.now), asking=False)
    if not named:
        return Start(progress)
    if held.held_by is not None:
        return GiveUp(words.WAIT_SUPERSEDED, progress, held.held_by)
    return AskPrograms(named)


def next_step(
    progress: Progress, profile: str, answer: WaitAnswer, *, bounds: WaitBounds, now: datetime, jitter: float
) -> Step:
    """What follows from an answer. Bounds are tested after it: a last check that says go lets the run go.

    `jitter` is from 0 to 1. Only what is literally go starts a run.
    """
    asked = replace(
        progress,
        checks=progress.checks + 1,
        faults=progress.faults + 1 if answer is WaitAnswer.FAULT else 0,
        last_profile=profile,
        last_answer=answer,
        last_at=now,
    )
    if answer is WaitAnswer.GO:
        return Start(asked)
    asked = replace(_first_held(asked, now), asked_since=progress.asked_since or now)
    if answer is WaitAnswer.NEVER:
        return GiveUp(words.WAIT_REFUSED, asked)
    elapsed = now - (progress.asked_since or now)
    if asked.faults >= bounds.faults_max:
        return GiveUp(words.WAIT_UNANSWERABLE, asked)
    if asked.checks >= bounds.checks_max or elapsed >= bounds.wait_max:
        return GiveUp(words.WAIT_EXPIRED, asked)
    return Hold(now + pause(elapsed, bounds, jitter), asked, asking=True)


def broken_off(progress: Progress, now: datetime) -> Hold:
    """The check was ended by us, not by its time: it counts as nothing."""
    return Hold(now + CUT_SHORT, _first_held(progress, now), asking=True)


def pause(elapsed: timedelta, bounds: WaitBounds, jitter: float) -> timedelta:
    """How long until the next check: longer the longer it waits, but never past the end of the wait."""
    doublings = min(max(0, elapsed // (10 * bounds.interval)), MOST_DOUBLINGS)
    longest = max(LONGEST_PAUSE, bounds.interval)
    # Divided, since a long interval doubled is more than a timedelta holds.
    grown = longest if bounds.interval >= longest / 2**doublings else bounds.interval * 2**doublings
    return max(SHORTEST, min(grown * (1 + JITTER * jitter), bounds.wait_max - elapsed))


def _first_held(progress: Progress, now: datetime) -> Progress:
    return replace(progress, held_since=progress.held_since or now)


def written(conditions: Sequence[Condition]) -> list[dict[str, str]]:
    """The conditions as they are kept; `read` gives them back."""
    return [
        {"after": each.instant.isoformat()} if isinstance(each, WaitAfter) else {"profile": each.name}
        for each in conditions
    ]


def read(kept: Any) -> tuple[Condition, ...] | None:
    """None when a newer version wrote them, or nobody did: a condition that is not understood is not met."""
    if not isinstance(kept, list) or not 1 <= len(kept) <= CONDITIONS_MAX:
        return None
    found: list[Condition] = []
    for each in kept:
        condition = _condition(each)
        if condition is None:
            return None
        found.append(condition)
    return tuple(found)


def _condition(kept: Any) -> Condition | None:
    match kept:
        case {"after": str(text), **rest} if not rest:
            instant = instant_of(text)
            return None if instant is None else WaitAfter(instant)
        case {"profile": str(name), **rest} if not rest and is_name(name):
            return WaitProfile(name)
        case _:
            return None
