"""Decide whose calls wait when a provider refuses a model: those of all runs, or of the run alone that was refused.

A refusal rests the model for every run, but it is one run's word: it may have been refused for what it asked. So the others
wait at most `ONE_WORD` for it, and then one of them is let through. If that one is refused as well, the model rests for as
long as the provider said. If it is answered, the first one waits alone, and so it does from then on, until another run is
refused too. Other models go on meanwhile, unless the answer spoke of the whole account, or several runs are refused with
several models: then the account has a pause of its own.

Times are seconds on any clock that goes on evenly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pidispatch.domain.providers import pressure
from pidispatch.domain.providers.pressure import (
    CALM,
    OPEN,
    Abandoned,
    Busy,
    End,
    Heard,
    NotBefore,
    Pass,
    ProviderGate,
)

ONE_WORD = 10.0
REMEMBERED = 3600.0  # how long a run's refusals count for it alone
MOST_LANES = 256  # boxes choose the names of models


@dataclass(frozen=True, slots=True)
class Own:
    """A run's own gate in a lane, and what its refusals are worth to others; the last was at `at`.

    `doubted`: another run was answered since, and it has not asked again. `alone`: it was refused where others were
    answered.
    """

    gate: ProviderGate = OPEN
    doubted: bool = False
    alone: bool = False
    at: float = 0.0

    def speaks(self, now: float) -> bool:
        """Whether its last refusal says something of others too."""
        return not self.alone and self.gate.until is not None and now < self.gate.until + CALM


@dataclass(frozen=True, slots=True)
class Lane:
    """One model of a provider: the gate of all runs, and that of each run that was refused, by its id."""

    shared: ProviderGate = OPEN
    runs: Mapping[int, Own] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Leave:
    """Leave for one call, from each gate on its way."""

    account: Pass = field(default_factory=Pass)
    shared: Pass = field(default_factory=Pass)
    own: Pass = field(default_factory=Pass)

    @property
    def is_probe(self) -> bool:
        return bool(self.account.probe or self.shared.probe or self.own.probe)


@dataclass(frozen=True, slots=True)
class LaneKey:
    """One provider's key: the gate of the whole account, and a lane for each model that was refused."""

    account: ProviderGate = OPEN
    lanes: Mapping[str, Lane] = field(default_factory=dict)

    def lane(self, model: str) -> Lane:
        return self.lanes.get(model, _FREE)

    def refusals(self, model: str, run: int) -> int:
        """How often in a row this run was refused: who was refused more often lets the others try first."""
        own = self.lane(model).runs.get(run)
        return 0 if own is None else own.gate.refusals

    def busy_until(self, model: str, run: int | None, now: float) -> float | None:
        """When calls of the model are let through again, of this run or (None) of one that is new."""
        lane = self.lane(model)
        own = None if run is None else lane.runs.get(run)
        gates = (self.account, lane.shared, OPEN if own is None else own.gate)
        return max(
            (each.until for each in gates if each.until is not None and each.until > now), default=None
        )

    def busy(self, now: float) -> Iterator[tuple[str | None, float]]:
        """Each busy model, None for the account, and until when."""
        gates = [(None, self.account), *((model, lane.shared) for model, lane in self.lanes.items())]
        return ((model, gate.until) for model, gate in gates if gate.until is not None and gate.until > now)


_FREE = Lane()
_FREELY = Leave()


def ask(key: LaneKey, model: str, run: int, now: float) -> tuple[LaneKey, Leave | NotBefore]:
    """May this run's call of the model go now? Every gate on its way must let it through."""
    if key.account.until is None and model not in key.lanes:
        return key, _FREELY
    lane = key.lane(model)
    own = lane.runs.get(run)
    account, first = pressure.ask(key.account, now)
    shared, second = pressure.ask(lane.shared, now)
    gate, third = (OPEN, Pass()) if own is None else pressure.ask(own.gate, now)
    if not (isinstance(first, Pass) and isinstance(second, Pass) and isinstance(third, Pass)):
        return key, NotBefore(max(each.at for each in (first, second, third) if isinstance(each, NotBefore)))
    runs = lane.runs if own is None else {**lane.runs, run: replace(own, gate=gate)}
    return _with(replace(key, account=account), model, Lane(shared, runs), now), Leave(first, second, third)


def tell(key: LaneKey, model: str, run: int, leave: Leave, end: End, *, now: float, jitter: float) -> LaneKey:
    """What a call met. `jitter` is from 0 to 1."""
    if not isinstance(end, Busy) and leave == _FREELY and model not in key.lanes:
        return key
    lane = key.lane(model)
    if isinstance(end, Busy) and end.account:
        account = pressure.tell(key.account, leave.account, end, now=now, jitter=jitter)
        lane = _told(lane, run, leave, Abandoned(), now=now, jitter=jitter)
        return _with(replace(key, account=account), model, lane, now)
    of_account = end
    if isinstance(end, Busy):
        # Of a pause of the whole account nothing was said.
        is_wider = leave.account.probe or _is_wider(key, model, run, now)
        of_account = Busy() if is_wider else Abandoned()
        lane = _refused(lane, run, leave, end, now=now, jitter=jitter)
    else:
        lane = _told(lane, run, leave, end, now=now, jitter=jitter)
    account = pressure.tell(key.account, leave.account, of_account, now=now, jitter=jitter)
    told = _with(replace(key, account=account), model, lane, now)
    reopened = key.account.until is not None and account.until is None
    if not reopened:
        return told
    return replace(told, lanes={name: _doubted(each, run, now) for name, each in told.lanes.items()})


def _is_wider(key: LaneKey, model: str, run: int, now: float) -> bool:
    """Another run is refused with another model, and neither is alone with it."""
    own = key.lane(model).runs.get(run)
    return not (own is not None and own.alone) and any(
        each.speaks(now)
        for name, lane in key.lanes.items()
        if name != model
        for other, each in lane.runs.items()
        if other != run
    )


def _refused(lane: Lane, run: int, leave: Leave, end: Busy, *, now: float, jitter: float) -> Lane:
    own = lane.runs.get(run, Own())
    own = replace(own, alone=own.alone or own.doubted, doubted=False)
    agreed = any(each.speaks(now) for other, each in lane.runs.items() if other != run)
    gate = pressure.tell(own.gate, leave.own, end, now=now, jitter=jitter)
    if own.alone and not agreed:
        # Whoever may go next instead of it, goes.
        shared = pressure.tell(lane.shared, leave.shared, Abandoned(), now=now, jitter=jitter)
        return Lane(shared, {**lane.runs, run: replace(own, gate=gate, at=now)})
    shared = pressure.tell(lane.shared, leave.shared, end, now=now, jitter=jitter)
    runs = {**lane.runs, run: replace(own, gate=gate, at=now)}
    if agreed:
        return Lane(shared, {each: replace(word, alone=False) for each, word in runs.items()})
    until = max(lane.shared.until or now, min(shared.until or now, now + ONE_WORD))
    return Lane(replace(shared, until=until), runs)


def _told(lane: Lane, run: int, leave: Leave, end: Heard | Abandoned, *, now: float, jitter: float) -> Lane:
    shared = pressure.tell(lane.shared, leave.shared, end, now=now, jitter=jitter)
    runs = dict(lane.runs)
    if run in runs:
        own = runs[run]
        gate = pressure.tell(own.gate, leave.own, end, now=now, jitter=jitter)
        runs[run] = replace(own, gate=gate, doubted=own.doubted and gate.until is not None)
    told = Lane(shared, runs)
    reopened = lane.shared.until is not None and shared.until is None
    return _doubted(told, run, now) if reopened else told


def _doubted(lane: Lane, answered: int, now: float) -> Lane:
    """Where one run is answered, what was said to the others until now or for longer was not said of all."""
    runs = {
        run: own
        if run == answered or own.gate.until is None
        else replace(own, doubted=True, alone=own.alone or own.gate.until > now)
        for run, own in lane.runs.items()
    }
    return replace(lane, runs=runs)


def _with(key: LaneKey, model: str, lane: Lane, now: float) -> LaneKey:
    """With this lane, and without what says nothing any more."""
    runs = {run: own for run, own in lane.runs.items() if _is_remembered(own, now)}
    lanes = {name: each for name, each in key.lanes.items() if name != model}
    if runs or not _is_calm(lane.shared, now):
        if len(lanes) >= MOST_LANES:
            del lanes[min(lanes, key=lambda name: lanes[name].shared.until or 0.0)]
        lanes[model] = replace(lane, runs=runs)
    return replace(key, lanes=lanes)


def _is_calm(gate: ProviderGate, now: float) -> bool:
    """Whether its next pause would be a first one."""
    return gate.until is None and (gate.opened_at is None or now >= gate.opened_at + CALM)


def _is_remembered(own: Own, now: float) -> bool:
    until = own.gate.until or own.at
    return now < until + (REMEMBERED if own.alone else CALM) or (
        own.gate.until is None and not _is_calm(own.gate, now)
    )
