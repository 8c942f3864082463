"""Decide whether one more run fits into its windows of spend."""

from dataclasses import dataclass
from enum import StrEnum

EVERYTHING = "*"  # the scope that every run belongs to


class Period(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class WindowState(StrEnum):
    OK = "ok"
    SOFT_HOLD = "soft-hold"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class RunCap:
    """How many runs one scope may start in one period; `soft_pct` is a percentage of `cap` or None."""

    scope: str
    period: Period
    cap: int
    soft_pct: int | None = None


@dataclass(frozen=True, slots=True)
class WindowFill:
    """A cap beside what its window holds once this run is counted."""

    cap: RunCap
    used: int


@dataclass(frozen=True, slots=True)
class Fits:
    """The run may start."""


@dataclass(frozen=True, slots=True)
class Exceeds:
    """The run may not start: the record's reason, and which window said so."""

    reason: str
    why: str


def window_state(used: int, cap: int, soft_pct: int | None) -> WindowState:
    """`used` already counts this run: reaching a cap exactly is allowed."""
    if used > cap:
        return WindowState.OVER
    if soft_pct is not None and used > cap * soft_pct // 100:
        return WindowState.SOFT_HOLD
    return WindowState.OK


def decide(fills: list[WindowFill]) -> Fits | Exceeds:
    """The worst window decides; among equals the first of day, week, month (the order of `fills`)."""
    states = [(window_state(fill.used, fill.cap.cap, fill.cap.soft_pct), fill) for fill in fills]
    for worst, reason in ((WindowState.OVER, "over-budget"), (WindowState.SOFT_HOLD, "soft-hold")):
        for state, fill in states:
            if state is worst:
                return Exceeds(reason, f"{fill.cap.period}-cap")
    return Fits()


def global_caps(
    *, daily: int, weekly: int | None, monthly: int | None, soft_pct: int | None
) -> tuple[RunCap, ...]:
    """The windows every run counts in: the day always, week and month when a cap is set."""
    wanted = ((Period.DAY, daily), (Period.WEEK, weekly), (Period.MONTH, monthly))
    return tuple(RunCap(EVERYTHING, period, cap, soft_pct) for period, cap in wanted if cap is not None)
