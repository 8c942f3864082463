"""Hold calls back from a provider that has said it is busy, and let the runs that wait take turns."""

import bisect
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

import structlog

from pidispatch.domain.providers import lanes
from pidispatch.domain.providers.lanes import LaneKey, Leave
from pidispatch.domain.providers.pressure import Abandoned, Busy, End, Heard, NotBefore, ProviderGate
from pidispatch.gateway.calls.refusal import ProviderRefusal
from pidispatch.gateway.calls.upstream import Line

HOLD_SECONDS = (
    240.0  # of one call; pi, which tries again three times, is told to have more patience than this
)
TRIES_OF_PI = 4

log = structlog.get_logger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Asker:
    """Whose call it is, and for what. `slots`: how many of the provider's calls may be under way, None for any number."""

    provider: str
    model: str
    run: int
    slots: int | None = None


@dataclass(slots=True, eq=False)
class WaitingCall:
    """A call that waits for its turn. `woken` is set whenever it has to look again."""

    number: int
    asker: Asker
    woken: threading.Event = field(default_factory=threading.Event)
    leave: Leave | None = None


@dataclass(slots=True)
class _Provider:
    """One provider's key, those who wait for it by their numbers, how many calls of each run are under way.

    `served` tells when each run was last let through, in a count of all calls. `refusals` are the last words for each model, those of a whole account under None.
    """

    key: LaneKey = field(default_factory=LaneKey)
    line: list[WaitingCall] = field(default_factory=list)
    under_way: Counter[int] = field(default_factory=Counter)
    served: dict[int, int] = field(default_factory=dict)
    refusals: dict[str | None, ProviderRefusal] = field(default_factory=dict)

    def ask(self, asker: Asker, now: float) -> tuple[LaneKey, Leave | NotBefore]:
        return lanes.ask(self.key, asker.model, asker.run, now)

    def in_turn(self) -> list[WaitingCall]:
        """Whose turn it is: whose run was refused less often, has less under way, was served longer ago, came first."""
        taken = Counter(self.under_way)
        ranked = []
        for waiter in self.line:
            run = waiter.asker.run
            refusals, served = self.key.refusals(waiter.asker.model, run), self.served.get(run, 0)
            ranked.append(((refusals, taken[run], served, waiter.number), waiter))
            taken[run] += 1
        ranked.sort(key=lambda each: each[0])
        return [waiter for _, waiter in ranked]


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
        self._providers: dict[str, _Provider] = {}
        self._numbers = itertools.count()
        self._stopped = False

    def busy_until(self, provider: str, model: str | None = None, run: int | None = None) -> datetime | None:
        """When calls of the model (None: of any) are let through again; None while they are. `run`: of a run there was."""
        now, wall = self._clock(), self._wall()
        with self._lock:
            until = self._provider(provider).key.busy_until(model or "", run, now)
        return None if until is None else wall + timedelta(seconds=until - now)

    def busy(self) -> Mapping[str, datetime]:
        """What new calls wait for, `provider/model` or, with all its models, `provider`.

        One whose pause is over is no longer there, even before its probe.
        """
        now, wall = self._clock(), self._wall()
        with self._lock:
            return {
                name if model is None else f"{name}/{model}": wall + timedelta(seconds=until - now)
                for name, provider in sorted(self._providers.items())
                for model, until in provider.key.busy(now)
            }

    @property
    def is_stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        """The gateway ends: nobody waits any longer, nobody is let through."""
        with self._lock:
            self._stopped = True
            waiting = [waiter for provider in self._providers.values() for waiter in provider.line]
        for waiter in waiting:
            waiter.woken.set()

    def arrive(self) -> tuple[int, float]:
        """A place in line, and until when a call that comes now may be held."""
        return next(self._numbers), self._clock() + self._hold

    def last_refusal(self, asker: Asker) -> ProviderRefusal | None:
        with self._lock:
            told = self._provider(asker.provider).refusals
            return told.get(asker.model) or told.get(None)

    def wait(self, waiter: WaitingCall, *, deadline: float, given_up: Callable[[], bool]) -> Leave | None:
        """Leave to send, given in turn. None: gave up, all are stopped, or it will not come in time."""
        with self._lock:
            provider = self._provider(waiter.asker.provider)
            bisect.insort(provider.line, waiter, key=lambda each: each.number)
        while True:
            with self._lock:
                waiter.woken.clear()
                if not given_up():
                    self._let_go(provider)
                if waiter.leave is not None:
                    return waiter.leave
                now = self._clock()
                _, answer = provider.ask(waiter.asker, now)
                # A leave here means that a slot is what is missing: whoever frees one gives it on.
                at = answer.at if isinstance(answer, NotBefore) else deadline
                if self._stopped or given_up() or now >= deadline or self._is_hopeless(at, now, deadline):
                    provider.line.remove(waiter)
                    return None
            waiter.woken.wait(min(at, deadline) - now)

    def report(
        self,
        asker: Asker,
        leave: Leave,
        end: End,
        *,
        refusal: ProviderRefusal | None = None,
        over: bool = False,
    ) -> None:
        """What a call with this leave met; with `over` its slot is free again."""
        with self._lock:
            provider = self._provider(asker.provider)
            before = provider.key
            provider.key = lanes.tell(
                before, asker.model, asker.run, leave, end, now=self._clock(), jitter=self._chance()
            )
            if over:
                provider.under_way[asker.run] -= 1
                provider.under_way += Counter()  # without those that have none
            self._keep_words(provider, asker, end, refusal)
            if isinstance(end, Busy):
                # A pause may have become so long that waiting for it makes no sense.
                for waiter in provider.line:
                    waiter.woken.set()
            self._let_go(provider)
            after, waiting = provider.key, len(provider.line)
        self._say(asker, before, after, refusal, waiting)

    def _provider(self, name: str) -> _Provider:
        return self._providers.setdefault(name, _Provider())

    @staticmethod
    def _keep_words(provider: _Provider, asker: Asker, end: End, refusal: ProviderRefusal | None) -> None:
        if isinstance(end, Busy) and refusal is not None:
            provider.refusals[None if end.account else asker.model] = refusal
        for model in [model for model in provider.refusals if model is not None]:
            if model not in provider.key.lanes:
                del provider.refusals[model]
        if provider.key.account.until is None:
            provider.refusals.pop(None, None)

    def _let_go(self, provider: _Provider) -> None:
        """Give leave to as many as may go now."""
        if not provider.line:
            provider.served.clear()
        if not provider.line or self._stopped:
            return
        now, under_way = self._clock(), provider.under_way.total()
        for waiter in provider.in_turn():
            if waiter.asker.slots is not None and under_way >= waiter.asker.slots:
                continue
            key, answer = provider.ask(waiter.asker, now)
            if isinstance(answer, NotBefore):
                continue
            provider.key, waiter.leave = key, answer
            provider.line.remove(waiter)
            provider.under_way[waiter.asker.run] += 1
            provider.served[waiter.asker.run] = next(self._numbers)
            under_way += 1
            waiter.woken.set()

    def _is_hopeless(self, at: float, now: float, deadline: float) -> bool:
        """A window so far away that pi, told after each hold and trying again, would give up before."""
        return at != deadline and at > now + TRIES_OF_PI * self._hold

    def _say(
        self, asker: Asker, before: LaneKey, after: LaneKey, refusal: ProviderRefusal | None, waiting: int
    ) -> None:
        """One line when something becomes busy, one when it is free again: what lies between is not told."""
        for model, old, new in _gates(asker, before, after):
            about = {"provider": asker.provider, "model": model}
            if old.until is None and new.until is not None:
                until = self._wall() + timedelta(seconds=new.until - self._clock())
                log.warning(
                    "provider_busy",
                    **about,
                    run_id=asker.run,
                    until=until.isoformat(timespec="seconds"),
                    why=None if refusal is None else refusal.status,
                    asked_seconds=None if refusal is None else refusal.busy.pause,
                    waiting=waiting,
                )
            elif old.until is not None and new.until is None:
                log.info("provider_free", **about, refusals=old.refusals)


def _gates(
    asker: Asker, before: LaneKey, after: LaneKey
) -> Iterator[tuple[str | None, ProviderGate, ProviderGate]]:
    """The account's gate (under None) and the model's, as they were and as they are."""
    yield None, before.account, after.account
    yield asker.model, before.lane(asker.model).shared, after.lane(asker.model).shared


class Turn:
    """Use as a context manager around everything that is sent for one call.

    Its place in line is kept from turn to turn; a call whose probe was refused goes to the end, so that a request that
    is always refused does not keep the others from being tried.
    """

    def __init__(self, pressure: Pressure, asker: Asker, line: Line) -> None:
        self._pressure, self._asker, self._line = pressure, asker, line
        self._number, self._deadline = pressure.arrive()
        self._leave: Leave | None = None
        self.last_refusal: ProviderRefusal | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After `heard` this only frees the slot.
        self._end(Abandoned())

    def take(self) -> bool:
        """Wait for leave to send. False: the client has gone, all are stopped, or it will not come in time."""
        waiter = WaitingCall(self._number, self._asker)
        with self._line.waking(waiter.woken.set):
            self._leave = self._pressure.wait(
                waiter, deadline=self._deadline, given_up=lambda: self._line.is_cut
            )
        if self._leave is None and not self.is_given_up:
            self.last_refusal = self.last_refusal or self._pressure.last_refusal(self._asker)
        return self._leave is not None

    @property
    def is_given_up(self) -> bool:
        """Nobody is there any more to be told of a refusal."""
        return self._line.is_cut or self._pressure.is_stopped

    def refused(self, refusal: ProviderRefusal) -> None:
        """The provider is busy, and nothing of its answer went to the client."""
        self.last_refusal = refusal
        if self._leave is not None and self._leave.is_probe:
            self._number, _ = self._pressure.arrive()
        self._end(refusal.busy, refusal)

    def heard(self) -> None:
        """Any other answer has begun, or none will come; the slot is kept until the end."""
        if self._leave is not None:
            self._pressure.report(self._asker, self._leave, Heard())

    def _end(self, end: End, refusal: ProviderRefusal | None = None) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            self._pressure.report(self._asker, leave, end, refusal=refusal, over=True)
