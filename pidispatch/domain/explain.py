"""Read back a decision on a run: every gate in its order, its verdict, and the numbers it saw."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from pidispatch.domain import words
from pidispatch.domain.words import GateName, gate_of

GATES = (
    GateName.SETTINGS, GateName.IMAGE, GateName.MODELS, GateName.PROVIDER, GateName.FOLDER, GateName.PAUSE_WINDOWS, GateName.RUN_CAP, GateName.PAUSE, GateName.SLOTS,
    GateName.HOST_CAPACITY, GateName.WINDOWS,
)  # fmt: skip


class Verdict(StrEnum):
    PASSED = "passed"
    STOPPED = "stopped here"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class GateLine:
    """One gate. `saw` holds its facts as JSON, None where none are kept; `why` the word that stopped the run."""

    gate: str
    verdict: Verdict
    saw: Any = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """What the last look at a run answered: admitted, refused or deferred, by which word, and when (ISO 8601)."""

    kind: str
    at: str | None
    word: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is true now of a run that waits. Times are aware UTC; None is: nothing of the kind holds it back."""

    now: datetime
    everything_paused_at: datetime | None = None
    scopes_paused: Sequence[str] = ()
    busy_with: str | None = None
    full_scopes: Sequence[str] = ()
    host: str | None = None
    host_used: int = 0
    host_capacity: int | None = None
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Waiter:
    """The waiting run: its cause, until when, and its place in line."""

    state: str
    cause: str | None = None
    until: datetime | None = None
    place: int | None = None


@dataclass(frozen=True, slots=True)
class WaitsFor:
    """The first thing that holds a run back now, as a word, the numbers beside it, and its place in line."""

    word: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    place: int | None = None


def last_answer(facts: Mapping[str, Any] | None) -> LastAnswer | None:
    """None for a run that nobody has looked at, or whose facts are of another version."""
    answer = (facts or {}).get("answer")
    if not isinstance(answer, Mapping):
        return None
    word = answer.get("reason") or answer.get("cause")
    return LastAnswer(str(answer.get("kind")), answer.get("at"), word, answer.get("why"))


def gate_lines(facts: Mapping[str, Any] | None) -> list[GateLine]:
    """Every gate in the order of the ladder; a run that nobody has looked at reached none."""
    if facts is None:
        return [GateLine(gate, Verdict.NOT_REACHED) for gate in GATES]
    answer = last_answer(facts)
    stopped = _stopping_gate(facts, answer)
    word = None if answer is None else " ".join(part for part in (answer.word, answer.detail) if part)
    lines: list[GateLine] = []
    for gate in _ladder(facts):
        lines.extend(_lines_of(gate, facts, stopped, word))
    return lines


def _ladder(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Few runs have a broken trigger, spend a one-shot or find a full disk, so such a gate is shown only where it stopped one.

    Facts of an earlier version, which went on to ask for the provider, tell nothing of models.
    """
    told = facts.get("gates") or {}
    rest = [gate for gate in GATES[1:] if gate != GateName.MODELS or gate in told or "provider" not in told]
    if GateName.DISK in told:
        rest.insert(rest.index(GateName.FOLDER) + 1, GateName.DISK)
    return (GATES[0], *(gate for gate in (GateName.BREAKER, GateName.ONE_SHOT) if gate in told), *rest)


def _lines_of(
    gate: str, facts: Mapping[str, Any], stopped: str | None, word: str | None
) -> Iterator[GateLine]:
    ladder = _ladder(facts)
    if stopped is not None and ladder.index(gate) > ladder.index(stopped):
        yield GateLine(gate, Verdict.NOT_REACHED)
    elif gate == GateName.WINDOWS:
        yield from _window_lines(facts, word, refused=gate == stopped)
    elif gate == stopped:
        yield GateLine(gate, Verdict.STOPPED, _seen(gate, facts), word)
    else:
        yield GateLine(gate, Verdict.PASSED, _seen(gate, facts))


def _window_lines(facts: Mapping[str, Any], word: str | None, *, refused: bool) -> Iterator[GateLine]:
    """A line for each window. They are counted together, so every one has its numbers, whichever spoke first."""
    windows = facts.get("windows")
    if not isinstance(windows, Sequence) or isinstance(windows, str):
        yield GateLine(
            "windows", Verdict.STOPPED if refused else Verdict.PASSED, windows, word if refused else None
        )
        return
    for window in windows:
        within = window.get("state") == "ok"
        yield GateLine(
            "window",
            Verdict.PASSED if within else Verdict.STOPPED,
            window,
            None if within else word,
        )


def _stopping_gate(facts: Mapping[str, Any], answer: LastAnswer | None) -> str | None:
    """None when the run was admitted. A word that names no gate stopped at the first one that the facts do not tell of."""
    if answer is None or answer.kind == "admitted":
        return None
    named = gate_of(answer.word)
    if named in _ladder(facts) and (named is not GateName.WINDOWS or _told(named, facts)):
        return named
    return next((gate for gate in _ladder(facts) if not _told(gate, facts)), None)


def _told(gate: str, facts: Mapping[str, Any]) -> bool:
    gates = facts.get("gates") or {}
    match gate:
        case GateName.SETTINGS:
            return GateName.SETTINGS not in gates  # it is told of only when it stopped a run
        case GateName.RUN_CAP:
            return GateName.PAUSE_WINDOWS in gates
        case GateName.PAUSE | GateName.SLOTS | GateName.WINDOWS:
            return gate in facts
        case GateName.HOST_CAPACITY:
            return "room" in facts
        case _:
            return gate in gates


def _seen(gate: str, facts: Mapping[str, Any]) -> Any:
    match gate:
        case GateName.PAUSE | GateName.SLOTS:
            return facts.get(gate)
        case GateName.HOST_CAPACITY:
            return facts.get("room")
        case _:
            return (facts.get("gates") or {}).get(gate)


def waits_for(run: Waiter, around: Surroundings) -> WaitsFor:
    """What holds a waiting run back now; the wider the hold, the earlier it is told."""
    word, numbers = _held_by(run, around) or _crowded_out_by(around) or (words.A_WORKER_TO_LOOK, {})
    return WaitsFor(word, numbers, run.place)


_Hold = tuple[str, Mapping[str, Any]]


def _held_by(run: Waiter, around: Surroundings) -> _Hold | None:
    """An operator, or a time."""
    if around.everything_paused_at is not None:
        return words.EVERYTHING_PAUSED, {"since": around.everything_paused_at}
    if around.scopes_paused:
        return words.SCOPE_PAUSED, {"scopes": list(around.scopes_paused)}
    if run.until is not None and run.until > around.now:
        return run.cause or run.state, {"until": run.until}
    if run.state == "held":
        return run.cause or run.state, {}
    return None


def _crowded_out_by(around: Surroundings) -> _Hold | None:
    """Other runs, or nobody to do the work."""
    host = around.host
    if around.busy_with is not None:
        return words.SCOPE, {"behind": around.busy_with}
    if around.full_scopes:
        return words.SCOPE, {"full": list(around.full_scopes)}
    if host is not None and not around.workers:
        return words.NO_WORKER, {"host": host}
    if around.host_capacity is not None and around.host_used >= around.host_capacity:
        return words.HOST_FULL, {"host": host, "used": around.host_used, "capacity": around.host_capacity}
    return None
