"""Decide when calls may go on past one gate after a provider said that it is busy; `lanes` says which gates a call passes.

```
            refused                        the pause is over
   open ──────────────▶ busy (until) ─────────────────────────▶ half-open, one probe at a time
    ▲                     ▲                                        │  │
    │                     └──────────── the probe is refused ──────┘  │
    └─────────────────────────────────── the probe is answered ───────┘
```

Times are seconds on any clock that goes on evenly; the caller has one clock for all of them.
"""

from dataclasses import dataclass, replace
from typing import assert_never

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0  # of those that grow by themselves
LONGEST_WINDOW = 24 * 3600.0  # whatever a provider asks for
MOST_DOUBLINGS = 16
JITTER = 0.2
MOST_JITTER = 5.0
PROBE_PATIENCE = 30.0  # a provider that is busy says so at once; after this another probe may go
CALM = 60.0  # a key that was open for this long begins anew with the shortest pause
NO_PROBE = 0


@dataclass(frozen=True, slots=True)
class ProviderGate:
    """Where one key stands. `until` None: open. `refusals` counts pauses in a row; `probe` numbers the probes."""

    until: float | None = None
    refusals: int = 0
    opened_at: float | None = None
    probe: int = NO_PROBE
    probing_since: float | None = None


OPEN = ProviderGate()


@dataclass(frozen=True, slots=True)
class Pass:
    """Leave for one call. `probe` is its number as a probe, `NO_PROBE` for one of an open key."""

    probe: int = NO_PROBE


@dataclass(frozen=True, slots=True)
class NotBefore:
    """Ask again at this time, or when the gate has changed."""

    at: float


@dataclass(frozen=True, slots=True)
class Busy:
    """The provider refused: too much is asked of it. `pause` is for how long it said, None when it did not.

    `account`: it spoke of all that is asked with this key, not of one model.
    """

    pause: float | None = None
    account: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """The provider gave any other answer, or none that says that it is busy."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The call ended before anything was heard."""


End = Busy | Heard | Abandoned


def ask(gate: ProviderGate, now: float) -> tuple[ProviderGate, Pass | NotBefore]:
    """May a call go now?"""
    if gate.until is None:
        return gate, Pass()
    if now < gate.until:
        return gate, NotBefore(gate.until)
    if gate.probing_since is not None and now < gate.probing_since + PROBE_PATIENCE:
        return gate, NotBefore(gate.probing_since + PROBE_PATIENCE)
    probing = replace(gate, probe=gate.probe + 1, probing_since=now)
    return probing, Pass(probing.probe)


def tell(gate: ProviderGate, leave: Pass, end: End, *, now: float, jitter: float) -> ProviderGate:
    """What a call met. `jitter` is from 0 to 1."""
    match end:
        case Busy(pause):
            return _refused(gate, leave, pause, now, jitter)
        case Heard():
            return _heard(gate, leave, now)
        case Abandoned():
            return replace(gate, probing_since=None) if _is_the_probe(gate, leave) else gate
        case _ as never:
            assert_never(never)


def _refused(gate: ProviderGate, leave: Pass, pause: float | None, now: float, jitter: float) -> ProviderGate:
    if gate.until is not None and not _is_the_probe(gate, leave):
        # It was sent before the key became busy: no news, unless it tells of a longer pause.
        said = now if pause is None else now + _with_jitter(min(pause, LONGEST_WINDOW), jitter)
        return replace(gate, until=max(gate.until, said))
    calm = gate.until is None and (gate.opened_at is None or now >= gate.opened_at + CALM)
    refusals = 1 if calm else gate.refusals + 1
    wait = max(pause or 0.0, pause_after(refusals))
    until = now + _with_jitter(min(wait, LONGEST_WINDOW), jitter)
    # A call of before the pause may have been told of a longer one meanwhile.
    until = max(until, gate.until or until)
    return replace(gate, until=until, refusals=refusals, probing_since=None)


def _heard(gate: ProviderGate, leave: Pass, now: float) -> ProviderGate:
    """An answer to what was sent before the refusal says nothing; any probe's does."""
    if gate.until is None or leave.probe == NO_PROBE:
        return gate
    return replace(gate, until=None, opened_at=now, probing_since=None)


def _is_the_probe(gate: ProviderGate, leave: Pass) -> bool:
    return leave.probe != NO_PROBE and leave.probe == gate.probe and gate.probing_since is not None


def pause_after(refusals: int) -> float:
    """How long a key rests after so many refusals in a row, where the provider does not ask for more."""
    return min(FIRST_PAUSE * 2.0 ** min(refusals - 1, MOST_DOUBLINGS), LONGEST_PAUSE)


def _with_jitter(pause: float, jitter: float) -> float:
    """Later, never earlier: what the provider asked for is honoured."""
    return min(pause + min(pause * JITTER, MOST_JITTER) * jitter, LONGEST_WINDOW)
