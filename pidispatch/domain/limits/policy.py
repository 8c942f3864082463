"""Hold the limits in force at one instant, and say which of them apply to a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from pidispatch.domain.limits.windows import (
    EVERYTHING,
    MODEL,
    PROJECT,
    Cap,
    Period,
    Unit,
    lock_order,
    run_caps,
)


@dataclass(frozen=True, slots=True)
class ScopeCaps:
    """What one row of the limits file bounds; None is no bound. Money is in micro-dollars."""

    day: int | None = None
    week: int | None = None
    month: int | None = None
    concurrent: int | None = None
    day_micros: int | None = None
    week_micros: int | None = None
    month_micros: int | None = None


@dataclass(frozen=True, slots=True)
class Basis:
    """One of the operator's files, or several that are judged together, and which content of it is meant."""

    name: str
    place: str
    digest: str


class PauseCalendar(Protocol):
    """The pause windows, by the folder's or repository's name as it was given."""

    def until(self, kind: str, scope: str, now: datetime) -> datetime | None:
        """The end of the latest pause that holds this scope back now; None when it may start."""


class NeverPaused:
    """No pause windows."""

    def until(self, kind: str, scope: str, now: datetime) -> datetime | None:
        del kind, scope, now
        return None


@dataclass(frozen=True, slots=True)
class Subject:
    """What the limits ask of a run: its scope's key and names, and its project."""

    scope: str
    name: str
    resolved: str
    kind: str = "local"
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Settings, overlay and limit files as they are now. `by_scope` is keyed as `runs.scope` or `project:<id>`.

    A dollar cap of any kind needs `max_cost_micros`, the cap of one run: that is what is reserved. `allowed_models` are
    provider/model, None for any. `basis` are the files that it was read from.
    """

    provider: str
    model: str
    image: str
    max_turns: int
    max_tokens: int | None
    concurrency: int
    daily_cap: int
    weekly_cap: int | None = None
    monthly_cap: int | None = None
    soft_hold_pct: int | None = None
    daily_token_cap: int | None = None
    max_cost_micros: int | None = None
    daily_micros: int | None = None
    weekly_micros: int | None = None
    monthly_micros: int | None = None
    by_scope: Mapping[str, ScopeCaps] = field(default_factory=dict)
    projects: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)  # what a person calls a key of `by_scope`
    pauses: PauseCalendar = field(default_factory=NeverPaused)
    allowed_models: tuple[str, ...] | None = None
    basis: tuple[Basis, ...] = ()

    def narrowed(self, *, cost_cap: int | None, models: Sequence[str] | None) -> "Policy":
        """As it is for a run that asks for these: of two caps the smaller holds, of two lists of models its own."""
        caps = [cap for cap in (self.max_cost_micros, cost_cap) if cap is not None]
        allowed = self.allowed_models if models is None else tuple(models)
        return replace(self, max_cost_micros=min(caps, default=None), allowed_models=allowed)

    def within(self, models: Sequence[str] | None) -> "Policy":
        """The same without the models that are not among these; None leaves all."""
        if models is None:
            return self
        allowed = self.allowed_models
        return replace(
            self, allowed_models=tuple(each for each in models if allowed is None or each in allowed)
        )

    def allows(self, provider: str, model: str) -> bool:
        """Whether a run may call this model."""
        return self.allowed_models is None or f"{provider}/{model}" in self.allowed_models

    def with_run_cap(self, micros: int | None) -> "Policy":
        """The same limits for a run that may spend this much: that is what its windows reserve."""
        return replace(self, max_cost_micros=micros)

    def project_of(self, scope: str) -> str | None:
        return self.projects.get(scope)

    def caps_for(self, subject: Subject, *, costs: bool = True) -> tuple[Cap, ...]:
        """Every window this run counts in, in the order in which windows are locked.

        A run that costs nothing, since its model is free or in a plan, reserves no dollars.
        """
        caps = self._global_caps()
        for key in self._rows_of(subject):
            row = self.by_scope[key]
            caps += run_caps(key, day=row.day, week=row.week, month=row.month)
            caps += self._money(key, row.day_micros, row.week_micros, row.month_micros)
        if not costs:
            caps = tuple(replace(cap, amount=0) if cap.unit is Unit.MICROS else cap for cap in caps)
        return tuple(sorted(caps, key=lock_order))

    def cost_cap_within(self, caps: Sequence[Cap]) -> int | None:
        """What a run that counts in these windows may spend.

        Its agent may call another model than its own, so a run that reserves no dollars where they are bounded has none.
        """
        reserved = [cap.amount for cap in caps if cap.unit is Unit.MICROS]
        return min(reserved) if reserved else self.max_cost_micros

    def every_cap(self) -> tuple[Cap, ...]:
        """All windows with a cap, the global ones first: what a person wants to see of the budget."""
        caps = self._global_caps()
        for key, row in sorted(self.by_scope.items()):
            caps += run_caps(key, day=row.day, week=row.week, month=row.month)
            caps += self._money(key, row.day_micros, row.week_micros, row.month_micros)
        return caps

    def concurrent_for(self, subject: Subject) -> dict[str, int]:
        """How many runs at a time each of its scopes may have, for those that have a bound."""
        rows = {key: self.by_scope[key].concurrent for key in self._rows_of(subject)}
        return {key: bound for key, bound in rows.items() if bound is not None}

    def paused_until(self, subject: Subject, now: datetime) -> datetime | None:
        """By the name as it was given, or the folder it resolved to: whichever pause ends later."""
        names = {subject.name, subject.resolved}
        ends = [self.pauses.until(subject.kind, name, now) for name in sorted(names)]
        return max((end for end in ends if end is not None), default=None)

    def lacks_run_cap(self, subject: Subject) -> bool:
        """A dollar window without a cap on the run itself would reserve nothing: such a run must not start."""
        if self.max_cost_micros is not None:
            return False
        money = (self.daily_micros, self.weekly_micros, self.monthly_micros)
        rows = [self.by_scope[key] for key in self._rows_of(subject)]
        scoped = [amount for row in rows for amount in (row.day_micros, row.week_micros, row.month_micros)]
        return any(amount is not None for amount in (*money, *scoped))

    def _rows_of(self, subject: Subject) -> list[str]:
        """Its own row, its project's, and those of the models that it may call: every model's unless it is told which."""
        keys = [subject.scope, *([PROJECT + subject.project] if subject.project else [])]
        models = (
            None if self.allowed_models is None else {MODEL + each.lower() for each in self.allowed_models}
        )
        keys += sorted(
            key
            for key in self.by_scope
            if key.startswith(MODEL) and (models is None or key.lower() in models)
        )
        return [key for key in keys if key in self.by_scope]

    def _global_caps(self) -> tuple[Cap, ...]:
        caps = run_caps(
            EVERYTHING,
            day=self.daily_cap,
            week=self.weekly_cap,
            month=self.monthly_cap,
            soft_pct=self.soft_hold_pct,
        )
        if self.daily_token_cap is not None:
            caps += (Cap(EVERYTHING, Unit.TOKENS, Period.DAY, self.daily_token_cap, amount=0),)
        return caps + self._money(EVERYTHING, self.daily_micros, self.weekly_micros, self.monthly_micros)

    def _money(self, scope: str, day: int | None, week: int | None, month: int | None) -> tuple[Cap, ...]:
        reserve = self.max_cost_micros or 0
        return run_caps(scope, day=day, week=week, month=month, unit=Unit.MICROS, amount=reserve)
