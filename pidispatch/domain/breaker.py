"""Decide when a trigger that fails again and again is held back, when it is tried again, and when it goes on.

closed ── k failures in a row, all at one step ─▶ open ── a success ─▶ closed
                                                 │  ▲
                                the back-off is over │  the probe failed: the back-off doubles
                                                 ▼  │
                                               one probe
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from pidispatch.domain import words
from pidispatch.domain.run import Outcome

LONGEST_BACKOFF = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Rules:
    """`failures` in a row open it, 0 never does. `first_backoff` is until the first probe; it doubles, up to six hours."""

    failures: int
    first_backoff: timedelta


@dataclass(frozen=True, slots=True)
class Step:
    """Where runs ended: the same outcome for the same reason is the same step."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A run of the trigger has ended. `replica` counts from 1, None for a run that has none.

    `nothing_done`: it completed, but did nothing that would show that the trigger works.
    """

    run: str
    outcome: Outcome
    reason: str | None
    replica: int | None = None
    nothing_done: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A run of the trigger wants to start."""

    run: str


@dataclass(frozen=True, slots=True)
class Breaker:
    """`failures` in a row at `step`. `probe` is the public id of the run that tries while it is open.

    `probe_at` is when the next may try, `backoff` the wait that led there.
    """

    step: Step | None = None
    failures: int = 0
    opened_at: datetime | None = None
    backoff: timedelta = timedelta(0)
    probe_at: datetime | None = None
    probe: str | None = None


CLOSED = Breaker()


class Decision(StrEnum):
    START = "start"
    PROBE = "probe"
    SKIP = "skip"
    COUNTED = "counted"
    OPENED = "opened"
    CLOSED = "closed"


def decide(state: Breaker, event: Ended | Due, now: datetime, rules: Rules) -> tuple[Breaker, Decision]:
    """START, PROBE or SKIP for what is due; COUNTED, OPENED or CLOSED for what has ended."""
    match event:
        case Due(run):
            return due(state, run, now)
        case Ended(outcome=Outcome.COMPLETED, nothing_done=False):
            return CLOSED, Decision.COUNTED if state.opened_at is None else Decision.CLOSED
        case Ended():
            step = failed_at(event, is_probe=event.run == state.probe)
            if step is None:
                return _nothing_learned(state, event, now), Decision.COUNTED
            if state.opened_at is not None:
                return _failed_while_open(state, event, step, now, rules), Decision.COUNTED
            return _failed(state, step, now, rules)
        case _:
            assert_never(event)


def due(state: Breaker, run: str, now: datetime) -> tuple[Breaker, Decision]:
    if state.opened_at is None or state.probe_at is None:
        return state, Decision.START
    if state.probe == run:
        return state, Decision.PROBE
    if state.probe is not None or now < state.probe_at:
        return state, Decision.SKIP
    return replace(state, probe=run), Decision.PROBE


def failed_at(ended: Ended, *, is_probe: bool = False) -> Step | None:
    """None for an end that says nothing of the trigger. Of replicas, which fail together, the first one counts."""
    if ended.replica not in {None, 1} and not is_probe:
        return None
    match ended.outcome:
        case Outcome.FAILED:
            return Step(ended.outcome, ended.reason or words.UNKNOWN)
        case Outcome.POLICY if ended.reason in words.WILL_NOT_HEAL:
            return Step(ended.outcome, ended.reason)
        case Outcome.POLICY | Outcome.COMPLETED:
            return None
        case _:
            assert_never(ended.outcome)


def _failed(state: Breaker, step: Step, now: datetime, rules: Rules) -> tuple[Breaker, Decision]:
    failures = state.failures + 1 if state.step == step else 1
    if not rules.failures or failures < rules.failures:
        return Breaker(step, failures), Decision.COUNTED
    first = rules.first_backoff
    return Breaker(step, failures, now, first, now + first), Decision.OPENED


def _failed_while_open(state: Breaker, ended: Ended, step: Step, now: datetime, rules: Rules) -> Breaker:
    """Only its probe makes the wait longer: what started before it opened tells nothing new."""
    if ended.run != state.probe:
        return replace(state, failures=state.failures + 1) if state.step == step else state
    longer = min(state.backoff * 2, max(LONGEST_BACKOFF, rules.first_backoff))
    return Breaker(step, state.failures + 1, state.opened_at, longer, now + longer)


def _nothing_learned(state: Breaker, ended: Ended, now: datetime) -> Breaker:
    """A probe that was cancelled, or met a cap, is followed by another after the same wait."""
    if state.probe is None or ended.run != state.probe:
        return state
    return replace(state, probe=None, probe_at=now + state.backoff)
