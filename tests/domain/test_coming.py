"""Coming instants, and what a zone's clock does between them."""

from datetime import timedelta

from pidispatch.domain.schedules.timetable import Timetable
from pidispatch.domain.schedules.upcoming import ClockChange, coming
from tests.support.wallclock import utc

BERLIN = "Europe/Berlin"
FORWARD, BACK = utc(2027, 3, 28, 1), utc(2027, 10, 31, 1)


def told(pattern, zone, now, most=3):
    return list(coming(Timetable(pattern, zone), now, most))


def test_an_instant_is_told_in_its_zone_and_in_utc():
    first, second = told("30 9 * * *", BERLIN, utc(2027, 1, 4), most=2)

    assert first.at == utc(2027, 1, 4, 8, 30)
    assert first.local.isoformat() == "2027-01-04T09:30:00+01:00"
    assert second.at - first.at == timedelta(days=1)
    assert (first.change, second.change, first.skipped) == (None, None, False)


def test_the_clock_that_goes_forward_is_told_with_the_first_instant_after_it():
    before, after, later = told("0 9 * * *", BERLIN, utc(2027, 3, 27))

    assert before.change is None
    assert after.change == ClockChange(FORWARD, 3600)
    assert not after.skipped
    assert later.change is None


def test_an_instant_in_the_gap_is_due_at_its_end_and_says_so():
    _, instant, later = told("30 2 * * *", BERLIN, utc(2027, 3, 27))

    assert instant.at == FORWARD
    assert instant.skipped
    assert (later.change, later.skipped) == (None, False)


def test_an_instant_right_after_the_gap_was_not_skipped():
    _, instant, _ = told("0 3 * * *", BERLIN, utc(2027, 3, 27))

    assert instant.at == FORWARD
    assert instant.change == ClockChange(FORWARD, 3600)
    assert not instant.skipped


def test_the_clock_that_goes_back_is_told_once():
    found = told("30 2 * * *", BERLIN, utc(2027, 10, 30))

    assert [each.change for each in found] == [None, None, ClockChange(BACK, -3600)]
    assert found[1].at == utc(2027, 10, 31, 0, 30)


def test_a_half_hour_zone_is_told_as_such():
    found = told("0 12 * * *", "Australia/Lord_Howe", utc(2027, 4, 2, 12), most=4)

    assert [each.change.seconds for each in found if each.change] == [-1800]


def test_a_year_between_two_instants_leaves_the_clock_where_it_was():
    assert [each.change for each in told("0 0 1 1 *", BERLIN, utc(2027, 1, 2))] == [None] * 3


def test_utc_has_no_changes():
    assert not any(each.change for each in told("0 * * * *", "UTC", utc(2027, 3, 27, 23), most=48))
