"""What becomes of instants that nobody was there for."""

from datetime import timedelta
from itertools import pairwise

import pytest

from pidispatch.domain.triggers.catchup import LONGEST_SPREAD, MOST_MADE_UP, SlotState, decide, spread
from pidispatch.domain.triggers.trigger import Missed
from tests.support.wallclock import utc

NOW = utc(2026, 5, 4, 12)


def decided(missed, *ages, later=0, schedule="nightly"):
    """Of instants so many seconds ago."""
    return decide(
        schedule, [NOW - timedelta(seconds=age) for age in ages], later=later, now=NOW, missed=missed
    )


def told(slots):
    return [(slot.state.value, slot.reason) for slot in slots]


@pytest.mark.parametrize("missed", Missed)
def test_what_is_at_most_a_minute_late_runs_at_once(missed):
    assert told(decided(missed, 60, 30, 0)) == [("ran", None)] * 3


def test_skip_runs_nothing_that_is_late():
    assert told(decided(Missed.SKIP, 7200, 3600, 0)) == [
        ("skipped", "late"),
        ("skipped", "late"),
        ("ran", None),
    ]


def test_once_makes_up_for_the_newest_alone():
    assert told(decided(Missed.ONCE, 7200, 3600)) == [
        ("missed", "made-up-by-a-newer"),
        ("deferred", "catch-up"),
    ]


def test_once_makes_up_for_nothing_when_a_newer_one_runs_anyway():
    assert told(decided(Missed.ONCE, 3600, 10)) == [("missed", "made-up-by-a-newer"), ("ran", None)]
    assert told(decided(Missed.ONCE, 3600, later=1)) == [("missed", "made-up-by-a-newer")]


def test_all_is_bounded_to_the_newest_and_they_follow_each_other():
    slots = decided(Missed.ALL, *range(40 * 3600, 0, -3600))

    made_up = [slot for slot in slots if slot.state is SlotState.DEFERRED]
    assert told(slots[:16]) == [("missed", "too-many-missed")] * 16
    assert slots[16:] == made_up
    assert len(made_up) == MOST_MADE_UP
    gaps = {b.not_before - a.not_before for a, b in pairwise(made_up)}
    assert gaps == {timedelta(minutes=1)}


def test_thirty_schedules_after_three_days_are_spread_and_always_alike():
    days = 3 * 86400
    starts = sorted(decided(Missed.ONCE, days, schedule=f"s{n}")[0].not_before - NOW for n in range(30))

    assert starts == sorted(spread(f"s{n}", timedelta(seconds=days)) for n in range(30))
    assert max(starts) <= timedelta(seconds=LONGEST_SPREAD)
    assert len(set(starts)) >= 28
    assert max(sum(start <= each < start + timedelta(minutes=1) for each in starts) for start in starts) <= 6


def test_nothing_waits_longer_than_it_is_late():
    assert all(spread(f"s{n}", timedelta(seconds=90)) <= timedelta(seconds=90) for n in range(100))
