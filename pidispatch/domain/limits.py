"""Decide whether one more run fits into its windows of spend."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pidispatch.domain import words

EVERYTHING = "*"  # the scope that every run belongs to
PROJECT = "project:"
MODEL = "model:"


class Period(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class Unit(StrEnum):
    RUNS = "runs"
    TOKENS = "tokens"
    MICROS = "micros"


class WindowState(StrEnum):
    OK = "ok"
    SOFT_HOLD = str(words.SOFT_HOLD)
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Cap:
    """What one scope may use of one unit in one period, and what this run would add to it.

    `amount` is 1 for runs, the run's own cap for micro-dollars, and 0 for tokens: those are looked at before and
    counted after. `soft_pct` is a percentage of `cap` or None.
    """

    scope: str
    unit: Unit
    period: Period
    cap: int
    amount: int = 1
    soft_pct: int | None = None


@dataclass(frozen=True, slots=True)
class WindowFill:
    """A cap beside what its window holds once this run's amount is counted.

    `held` is how much of `used` other runs only hold and may yet give back: their end decides.
    """

    cap: Cap
    used: int
    held: int = 0


@dataclass(frozen=True, slots=True)
class Fits:
    """The run may start."""


@dataclass(frozen=True, slots=True)
class Exceeds:
    """The run may not start: the record's reason, and which window said so."""

    reason: str
    why: str


@dataclass(frozen=True, slots=True)
class HeldByOthers:
    """The run may start once others have given back what they hold of this window, or never: nobody knows yet."""

    fill: WindowFill

    @property
    def room_at(self) -> int:
        """The run fits once the window's use, without it, is no more than this."""
        return most_used(self.fill.cap) - self.fill.cap.amount


def window_state(used: int, cap: int, soft_pct: int | None) -> WindowState:
    """`used` already counts this run: reaching a cap exactly is allowed."""
    if used > cap:
        return WindowState.OVER
    if soft_pct is not None and used > cap * soft_pct // 100:
        return WindowState.SOFT_HOLD
    return WindowState.OK


def fill_state(fill: WindowFill) -> WindowState:
    """Tokens are counted after the run, so what was spent before must leave room: reaching the cap is over."""
    if fill.cap.unit is Unit.TOKENS:
        return WindowState.OVER if fill.used >= fill.cap.cap else WindowState.OK
    return window_state(fill.used, fill.cap.cap, fill.cap.soft_pct)


def most_used(cap: Cap) -> int:
    """The largest use, this run counted, with which `fill_state` is still OK."""
    if cap.unit is Unit.TOKENS:
        return cap.cap - 1
    return cap.cap if cap.soft_pct is None else min(cap.cap, cap.cap * cap.soft_pct // 100)


def decide(fills: Iterable[WindowFill]) -> Fits | Exceeds | HeldByOthers:
    """The ladder: tokens of the day, runs from the narrowest scope to the widest, dollars in the same order.

    Within one ledger the worst window decides, and among equals the first of day, week, month. What others only hold
    refuses nobody: it is waited for, unless the run would not fit without it either.
    """
    asked = list(fills)
    certain = _first_over([replace(fill, used=fill.used - fill.held) for fill in asked])
    if certain is not None:
        fill, state = certain
        return Exceeds(_reason(fill.cap, state), _BY_PERIOD[fill.cap.period])
    possible = _first_over(asked)
    return Fits() if possible is None else HeldByOthers(possible[0])


def _first_over(fills: Sequence[WindowFill]) -> tuple[WindowFill, WindowState] | None:
    for ledger in _ledgers(fills):
        for worst in (WindowState.OVER, WindowState.SOFT_HOLD):
            for fill in ledger:
                if fill_state(fill) is worst:
                    return fill, worst
    return None


def _ledgers(fills: Sequence[WindowFill]) -> list[list[WindowFill]]:
    """The windows of one unit and one scope belong together; their order is the order in which they speak."""
    ledgers: dict[tuple[int, int, str], list[WindowFill]] = {}
    for fill in fills:
        key = (_UNIT_ORDER.index(fill.cap.unit), breadth(fill.cap.scope), fill.cap.scope)
        ledgers.setdefault(key, []).append(fill)
    periods = list(Period)
    return [sorted(ledgers[key], key=lambda fill: periods.index(fill.cap.period)) for key in sorted(ledgers)]


_BY_PERIOD = {Period.DAY: words.DAY_CAP, Period.WEEK: words.WEEK_CAP, Period.MONTH: words.MONTH_CAP}
_UNIT_ORDER = (Unit.TOKENS, Unit.RUNS, Unit.MICROS)


def breadth(scope: str) -> int:
    """How wide a scope is: a folder or repository, a project, a model, everything."""
    if scope == EVERYTHING:
        return 3
    if scope.startswith(MODEL):
        return 2
    return 1 if scope.startswith(PROJECT) else 0


def lock_order(cap: Cap) -> tuple[int, str, str, str]:
    """Windows are locked in this order by everybody: narrow scopes first, the hot global rows last."""
    return (breadth(cap.scope), cap.scope, cap.unit, cap.period)


def _reason(cap: Cap, state: WindowState) -> str:
    if cap.unit is Unit.TOKENS:
        return words.DAILY_TOKEN_CAP
    if cap.unit is Unit.MICROS:
        return words.DOLLAR_CAP
    if state is WindowState.SOFT_HOLD:
        return words.SOFT_HOLD
    return (words.SCOPE_CAP, words.PROJECT_CAP, words.SCOPE_CAP, words.OVER_BUDGET)[breadth(cap.scope)]


def run_caps(
    scope: str,
    *,
    day: int | None,
    week: int | None,
    month: int | None,
    unit: Unit = Unit.RUNS,
    amount: int = 1,
    soft_pct: int | None = None,
) -> tuple[Cap, ...]:
    """The windows of one scope and unit that have a cap."""
    wanted = ((Period.DAY, day), (Period.WEEK, week), (Period.MONTH, month))
    return tuple(Cap(scope, unit, period, cap, amount, soft_pct) for period, cap in wanted if cap is not None)
