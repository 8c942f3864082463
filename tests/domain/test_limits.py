"""Windows of spend against a slow, obviously right model."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.limits.windows import (
    Cap,
    Exceeds,
    Fits,
    Period,
    Unit,
    WindowFill,
    WindowState,
    decide,
    fill_state,
    most_used,
    run_caps,
    window_state,
)


@given(st.integers(0, 300), st.integers(1, 250), st.none() | st.integers(1, 99))
def test_a_window_is_over_above_its_cap_and_held_above_its_band(used, cap, pct):
    state = window_state(used, cap, pct)

    if used > cap:
        assert state is WindowState.OVER
    elif pct is not None and used > int(Fraction(cap * pct, 100)):
        assert state is WindowState.SOFT_HOLD
    else:
        assert state is WindowState.OK


@given(st.integers(0, 300), st.integers(1, 250), st.none() | st.integers(1, 99), st.sampled_from(list(Unit)))
def test_the_most_that_may_be_used_is_exactly_where_a_window_is_still_ok(used, cap, pct, unit):
    window = Cap("*", unit, Period.DAY, cap, 1, pct)

    assert (used <= most_used(window)) == (fill_state(WindowFill(window, used)) is WindowState.OK)


@pytest.mark.parametrize(("used", "state"), [(25, WindowState.OK), (26, WindowState.OVER)])
def test_cap_equality_admits(used, state):
    assert window_state(used, 25, None) is state


def test_the_soft_band_uses_the_floor_and_is_strictly_above_it():
    assert window_state(5, 7, 80) is WindowState.OK  # floor(5.6) = 5
    assert window_state(6, 7, 80) is WindowState.SOFT_HOLD


def fill(period, used, cap, pct=None):
    return WindowFill(Cap("*", Unit.RUNS, period, cap, 1, pct), used)


def test_the_worst_window_decides_and_among_equals_the_first():
    soft_day, over_month = fill(Period.DAY, 9, 10, 80), fill(Period.MONTH, 11, 10)

    assert decide([]) == Fits()
    assert decide([fill(Period.DAY, 10, 10)]) == Fits()
    assert decide([soft_day]) == Exceeds("soft-hold", "day-cap")
    assert decide([soft_day, over_month]) == Exceeds("over-budget", "month-cap")
    assert decide([fill(Period.WEEK, 11, 10), over_month]) == Exceeds("over-budget", "week-cap")


def test_only_caps_that_are_set_make_windows():
    assert run_caps("*", day=25, week=None, month=100, soft_pct=90) == (
        Cap("*", Unit.RUNS, Period.DAY, 25, 1, 90),
        Cap("*", Unit.RUNS, Period.MONTH, 100, 1, 90),
    )
