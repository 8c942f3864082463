"""Hold calls back from a provider that has said it is busy, and let them go in the order in which they came."""

import bisect
import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from pidispatch.domain import pressure as rules
from pidispatch.domain.pressure import OPEN, End, Gate, NotBefore, Pass
from pidispatch.gateway.refusal import Refusal

HOLD_SECONDS = (
    240.0  # of one call; pi, which tries again three times, is told to have more patience than this
)
TRIES_OF_PI = 4

log = structlog.get_logger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True, eq=False)
class Waiter:
    """A call that waits for its turn. `woken` is set whenever it has to look again."""

    number: int
    slots: int | None
    woken: threading.Event = field(default_factory=threading.Event)
    leave: Pass | None = None


@dataclass(slots=True)
class _Key:
    """One provider's key: its gate, those who wait for it by their numbers, and how many calls are under way."""

    gate: Gate = OPEN
    line: list[Waiter] = field(default_factory=list)
    under_way: int = 0
    refusal: Refusal | None = None


class Pressure:
    """Every provider's key, usable from any number of threads. A thread that waits uses no time."""

    def __init__(
        self,
        *,
        hold_seconds: float = HOLD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = _utc_now,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._hold, self._clock, self._wall, self._chance = hold_seconds, clock, wall, chance
        self._lock = threading.Lock()
        self._keys: dict[str, _Key] = {}
        self._numbers = itertools.count()
        self._stopped = False

    def busy_until(self, provider: str) -> datetime | None:
        """When its calls are let through again; None while they are."""
        return self.busy().get(provider)

    def busy(self) -> Mapping[str, datetime]:
        """The busy providers; one whose pause is over is no longer one, even before its probe."""
        now, wall = self._clock(), self._wall()
        with self._lock:
            return {
                name: wall + timedelta(seconds=key.gate.until - now)
                for name, key in sorted(self._keys.items())
                if key.gate.until is not None and key.gate.until > now
            }

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """The gateway ends: nobody waits any longer, nobody is let through."""
        with self._lock:
            self._stopped = True
            waiting = [waiter for key in self._keys.values() for waiter in key.line]
        for waiter in waiting:
            waiter.woken.set()

    def arrive(self) -> tuple[int, float]:
        """A place in line, and until when a call that comes now may be held."""
        return next(self._numbers), self._clock() + self._hold

    def last_refusal(self, provider: str) -> Refusal | None:
        with self._lock:
            return self._key(provider).refusal

    def wait(
        self, provider: str, waiter: Waiter, *, deadline: float, given_up: Callable[[], bool]
    ) -> Pass | None:
        """Leave to send, given in order of arrival. None: gave up, all are stopped, or it will not come in time."""
        with self._lock:
            key = self._key(provider)
            bisect.insort(key.line, waiter, key=lambda each: each.number)
        while True:
            with self._lock:
                waiter.woken.clear()
                if not given_up():
                    self._let_go(key)
                if waiter.leave is not None:
                    self._wake_first(key)
                    return waiter.leave
                now = self._clock()
                if self._stopped or given_up() or now >= deadline or self._is_hopeless(key, now):
                    key.line.remove(waiter)
                    self._wake_first(key)
                    return None
                pause = self._until_next(key, waiter, now, deadline)
            waiter.woken.wait(pause)

    def report(
        self, provider: str, leave: Pass, end: End, *, refusal: Refusal | None = None, over: bool = False
    ) -> None:
        """What a call with this leave met; with `over` its slot is free again."""
        with self._lock:
            key = self._key(provider)
            before = key.gate
            key.gate = rules.tell(before, leave, end, now=self._clock(), jitter=self._chance())
            key.under_way -= int(over)
            key.refusal = None if key.gate.until is None else refusal or key.refusal
            self._let_go(key)
            self._wake_first(key)
            after, waiting = key.gate, len(key.line)
        self._say(provider, before, after, refusal, waiting)

    def _key(self, provider: str) -> _Key:
        return self._keys.setdefault(provider, _Key())

    def _let_go(self, key: _Key) -> None:
        """Give leave to as many as may go now, the first in line first."""
        while key.line and not self._stopped:
            first = key.line[0]
            if first.slots is not None and key.under_way >= first.slots:
                return
            key.gate, answer = rules.ask(key.gate, self._clock())
            if isinstance(answer, NotBefore):
                return
            del key.line[0]
            first.leave = answer
            key.under_way += 1
            first.woken.set()

    @staticmethod
    def _wake_first(key: _Key) -> None:
        """The first in line is the one who watches the time."""
        if key.line:
            key.line[0].woken.set()

    def _until_next(self, key: _Key, waiter: Waiter, now: float, deadline: float) -> float:
        gate = key.gate
        if key.line[0] is not waiter or gate.until is None:
            return deadline - now
        _, answer = rules.ask(gate, now)
        # A pass here means that a slot is what is missing: whoever frees one says so.
        return min(answer.at, deadline) - now if isinstance(answer, NotBefore) else deadline - now

    def _is_hopeless(self, key: _Key, now: float) -> bool:
        """A window so far away that pi, told after each hold and trying again, would give up before."""
        return key.gate.until is not None and key.gate.until > now + TRIES_OF_PI * self._hold

    def _say(self, provider: str, before: Gate, after: Gate, refusal: Refusal | None, waiting: int) -> None:
        """One line when a key becomes busy, one when it is free again: what lies between is not told."""
        if before.until is None and after.until is not None:
            until = self._wall() + timedelta(seconds=after.until - self._clock())
            log.warning(
                "provider_busy",
                provider=provider,
                until=until.isoformat(timespec="seconds"),
                why=None if refusal is None else refusal.status,
                asked_seconds=None if refusal is None else refusal.busy.pause,
                waiting=waiting,
            )
        elif before.until is not None and after.until is None:
            log.info("provider_free", provider=provider, refusals=before.refusals)
