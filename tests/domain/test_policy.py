"""Which limits apply to a run, and the ladder in which they speak."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.limits.policy import Policy, ScopeCaps, Subject
from pidispatch.domain.limits.windows import (
    Cap,
    Exceeds,
    Fits,
    Period,
    Unit,
    WindowFill,
    decide,
    lock_order,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLAIN = Policy(provider="p", model="m", image="i", max_turns=30, max_tokens=None, concurrency=3, daily_cap=25)
FOLDER = Subject(scope="folder:1", name="./web", resolved="/srv/web")
IN_PROJECT = replace(FOLDER, project="shop")


def caps_of(policy, subject=FOLDER):
    return {
        (cap.scope, str(cap.unit), str(cap.period)): (cap.cap, cap.amount) for cap in policy.caps_for(subject)
    }


def test_the_daily_cap_is_always_there_and_the_others_are_asked_for():
    assert caps_of(PLAIN) == {("*", "runs", "day"): (25, 1)}
    full = replace(PLAIN, weekly_cap=50, monthly_cap=90, daily_token_cap=1000)
    assert caps_of(full) == {
        ("*", "runs", "day"): (25, 1),
        ("*", "runs", "week"): (50, 1),
        ("*", "runs", "month"): (90, 1),
        ("*", "tokens", "day"): (1000, 0),
    }


def test_the_soft_band_is_the_global_ledgers_alone():
    policy = replace(PLAIN, soft_hold_pct=80, by_scope={"folder:1": ScopeCaps(day=3)})

    assert {cap.scope: cap.soft_pct for cap in policy.caps_for(FOLDER)} == {"*": 80, "folder:1": None}


def test_a_row_counts_for_its_own_scope_and_a_projects_row_for_its_members():
    policy = replace(PLAIN, by_scope={"folder:1": ScopeCaps(day=3), "folder:2": ScopeCaps(day=4),
                                      "project:shop": ScopeCaps(week=7, concurrent=2)})  # fmt: skip

    assert set(caps_of(policy)) == {("*", "runs", "day"), ("folder:1", "runs", "day")}
    assert ("project:shop", "runs", "week") in caps_of(policy, IN_PROJECT)
    assert policy.concurrent_for(FOLDER) == {}
    assert policy.concurrent_for(IN_PROJECT) == {"project:shop": 2}


def test_a_dollar_window_reserves_the_runs_own_cap_and_is_nothing_without_it():
    policy = replace(PLAIN, daily_micros=10_000_000, by_scope={"folder:1": ScopeCaps(month_micros=5_000_000)})

    assert policy.lacks_run_cap(FOLDER)
    capped = replace(policy, max_cost_micros=2_000_000)
    assert not capped.lacks_run_cap(FOLDER)
    assert caps_of(capped)["*", "micros", "day"] == (10_000_000, 2_000_000)
    assert caps_of(capped)["folder:1", "micros", "month"] == (5_000_000, 2_000_000)
    assert not PLAIN.lacks_run_cap(FOLDER)


def test_a_run_that_costs_nothing_reserves_no_dollars():
    policy = replace(
        PLAIN, daily_micros=10, max_cost_micros=2, by_scope={"folder:1": ScopeCaps(month_micros=5)}
    )

    caps = policy.caps_for(FOLDER, costs=False)

    assert [(str(cap.unit), cap.amount) for cap in caps] == [("micros", 0), ("micros", 0), ("runs", 1)]
    assert [replace(cap, amount=cap.amount or 2) for cap in caps] == list(policy.caps_for(FOLDER))
    assert policy.cost_cap_within(caps) == 0
    assert policy.cost_cap_within(policy.caps_for(FOLDER)) == 2
    assert replace(policy, daily_micros=None, by_scope={}).cost_cap_within(()) == 2


def test_windows_are_locked_narrow_first_and_the_global_rows_last():
    policy = replace(
        PLAIN,
        weekly_cap=50,
        daily_token_cap=9,
        by_scope={"folder:1": ScopeCaps(day=3, month=9), "project:shop": ScopeCaps(week=7)},
    )

    order = [cap.scope for cap in policy.caps_for(IN_PROJECT)]

    assert order == sorted(order, key=["folder:1", "project:shop", "*"].index)
    assert list(policy.caps_for(IN_PROJECT)) == sorted(policy.caps_for(IN_PROJECT), key=lock_order)


@pytest.mark.parametrize(
    ("deployment", "asked", "in_force"),
    [(None, None, None), (5, None, 5), (None, 3, 3), (5, 3, 3), (3, 5, 3)],
)
def test_of_two_caps_of_a_run_the_smaller_is_in_force_and_reserved(deployment, asked, in_force):
    policy = replace(PLAIN, daily_micros=100, max_cost_micros=deployment)

    narrowed = policy.narrowed(cost_cap=asked, models=None)

    assert narrowed.max_cost_micros == in_force
    assert narrowed.lacks_run_cap(FOLDER) is (in_force is None)
    assert caps_of(narrowed)["*", "micros", "day"] == (100, in_force or 0)


@pytest.mark.parametrize(
    ("deployment", "asked", "in_force"),
    [
        (None, None, None),
        (("p/m",), None, ("p/m",)),
        (("p/m",), ["p/other"], ("p/other",)),
        (None, ["p/m"], ("p/m",)),
    ],
)
def test_a_runs_own_list_of_models_is_in_place_of_the_deployments(deployment, asked, in_force):
    narrowed = replace(PLAIN, allowed_models=deployment).narrowed(cost_cap=None, models=asked)

    assert narrowed.allowed_models == in_force
    assert narrowed.allows("p", "m") is (in_force is None or "p/m" in in_force)
    assert narrowed.allows("P", "m") is (in_force is None)


def test_a_run_counts_in_the_rows_of_the_models_that_it_may_call():
    rows = {"model:p/m": ScopeCaps(day_micros=9), "model:P/Other": ScopeCaps(day_micros=9)}
    policy = replace(PLAIN, max_cost_micros=1, by_scope=rows)

    told = policy.narrowed(cost_cap=None, models=["p/other", "q/x"])

    assert {cap.scope for cap in policy.caps_for(FOLDER)} == {"*", "model:p/m", "model:P/Other"}
    assert {cap.scope for cap in told.caps_for(FOLDER)} == {"*", "model:P/Other"}


class Until:
    def __init__(self, **ends):
        self.ends = ends

    def until(self, kind, scope, now):
        return self.ends.get(scope)


def test_a_pause_is_found_by_the_name_given_or_the_folder_it_resolved_to():
    later = NOON.replace(hour=14)
    by_name = replace(PLAIN, pauses=Until(**{"./web": NOON}))
    by_path = replace(PLAIN, pauses=Until(**{"./web": NOON, "/srv/web": later}))

    assert PLAIN.paused_until(FOLDER, NOON) is None
    assert by_name.paused_until(FOLDER, NOON) == NOON
    assert by_path.paused_until(FOLDER, NOON) == later


def fill(scope, unit, period, used, cap, *, amount=1, pct=None):
    return WindowFill(Cap(scope, unit, period, cap, amount, pct), used)


TOKENS_OVER = fill("*", Unit.TOKENS, Period.DAY, 10, 10, amount=0)
SCOPE_OVER = fill("folder:1", Unit.RUNS, Period.DAY, 4, 3)
PROJECT_OVER = fill("project:shop", Unit.RUNS, Period.WEEK, 8, 7)
GLOBAL_OVER = fill("*", Unit.RUNS, Period.MONTH, 91, 90)
GLOBAL_SOFT = fill("*", Unit.RUNS, Period.DAY, 21, 25, pct=80)
DOLLARS_OVER = fill("*", Unit.MICROS, Period.DAY, 11, 10, amount=2)
LADDER = [
    (TOKENS_OVER, Exceeds("daily-token-cap", "day-cap")),
    (SCOPE_OVER, Exceeds("scope-cap", "day-cap")),
    (PROJECT_OVER, Exceeds("project-cap", "week-cap")),
    (GLOBAL_OVER, Exceeds("over-budget", "month-cap")),
    (GLOBAL_SOFT, Exceeds("soft-hold", "day-cap")),
    (DOLLARS_OVER, Exceeds("dollar-cap", "day-cap")),
]


@pytest.mark.parametrize(("step", "verdict"), list(enumerate(verdict for _, verdict in LADDER)))
def test_the_ladder_from_tokens_to_dollars(step, verdict):
    rest = [fill for fill, _ in LADDER[step:]]

    assert decide(rest) == verdict
    assert decide(list(reversed(rest))) == verdict


@pytest.mark.parametrize(
    ("spent", "verdict"), [(9, Fits()), (10, Exceeds("daily-token-cap", "day-cap")), (0, Fits())]
)
def test_tokens_are_looked_at_before_and_counted_after(spent, verdict):
    assert decide([fill("*", Unit.TOKENS, Period.DAY, spent, 10, amount=0)]) == verdict


@pytest.mark.parametrize(("total", "verdict"), [(10, Fits()), (11, Exceeds("dollar-cap", "day-cap"))])
def test_a_dollar_total_that_equals_its_cap_fits(total, verdict):
    assert decide([fill("*", Unit.MICROS, Period.DAY, total, 10, amount=3)]) == verdict


FILLS = st.builds(
    fill,
    st.sampled_from(["*", "folder:1", "project:shop", "o/r"]),
    st.sampled_from(list(Unit)),
    st.sampled_from(list(Period)),
    st.integers(0, 12),
    st.integers(1, 10),
    pct=st.none() | st.integers(1, 99),
)


@given(st.lists(FILLS, max_size=8, unique_by=lambda one: (one.cap.scope, one.cap.unit, one.cap.period)))
def test_a_run_fits_exactly_when_every_window_has_room(fills):
    def room(one):
        if one.cap.unit is Unit.TOKENS:
            return one.used < one.cap.cap
        soft = one.cap.soft_pct is not None and one.used * 100 > one.cap.cap * one.cap.soft_pct // 100 * 100
        return one.used <= one.cap.cap and not soft

    assert isinstance(decide(fills), Fits) == all(room(one) for one in fills)
