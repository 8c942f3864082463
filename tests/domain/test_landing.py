"""How near a run is to its caps, and which cap stopped it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.runs.budget_warning import PERCENT, Fill, Landing, Limit, landing, stopped_at


def test_without_caps_nothing_is_near():
    assert landing([Fill(Limit.COST, 10**9, None)]) == Landing(0.0, None, due=False)
    assert landing([]) == Landing(0.0, None, due=False)


def test_the_fullest_cap_decides():
    found = landing([Fill(Limit.COST, 10, 100), Fill(Limit.TOKENS, 830, 1000), Fill(Limit.TURNS, 24, 30)])

    assert found == Landing(0.83, Limit.TOKENS, due=True)


@pytest.mark.parametrize(("used", "due"), [(0, False), (23, False), (24, True), (30, True), (31, True)])
def test_landing_is_due_from_four_fifths_on(used, due):
    assert landing([Fill(Limit.TURNS, used, 30)]).due is due


def test_a_cap_of_nothing_is_reached_from_the_beginning():
    assert landing([Fill(Limit.COST, 0, 0)]) == Landing(1.0, Limit.COST, due=True)


@given(st.integers(0, 10**15), st.integers(1, 10**15))
def test_due_is_exact_in_whole_numbers(used, cap):
    assert landing([Fill(Limit.COST, used, cap)]).due == (used * 100 >= cap * PERCENT)


@pytest.mark.parametrize(
    ("ending", "limit"),
    [
        (("policy", "cost-cap", None), Limit.COST),
        (("policy", "token-cap", None), Limit.TOKENS),
        (("policy", "turn-cap", None), Limit.TURNS),
        (("policy", "runner-policy", "turn-budget"), Limit.TURNS),
        (("policy", "runner-policy", "token-budget"), Limit.TOKENS),
        (("policy", "runner-policy", "aborted"), None),
        (("policy", "runner-policy", None), None),
        (("policy", "operator-cancel", "turn-budget"), None),
        (("policy", "over-budget", None), None),
        (("failed", "cost-cap", None), None),
        (("completed", "completed", None), None),
        ((None, None, None), None),
    ],
)
def test_only_a_cap_of_the_run_itself_is_one(ending, limit):
    assert stopped_at(*ending) is limit
