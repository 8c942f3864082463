"""When a pattern is due, above all in the nights in which clocks change."""

from datetime import timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.schedules.timetable import Timetable, pattern_problem
from tests.support.wallclock import instants, utc


def on_the_wall(pattern, zone, start, many):
    found = islice(Timetable(pattern, zone).after(start), many)
    return [instant.astimezone(ZoneInfo(zone)).strftime("%d %H:%M:%S%z")[:-2] for instant in found]


@pytest.mark.parametrize(
    ("pattern", "zone", "start", "walls"),
    [
        ("30 2 * * *", "Europe/Berlin", utc(2026, 3, 28), ["28 02:30:00+01", "29 03:00:00+02", "30 02:30:00+02"]),
        ("30 2 * * *", "Europe/Berlin", utc(2026, 10, 24), ["24 02:30:00+02", "25 02:30:00+02", "26 02:30:00+01"]),
        ("15 30 2 * * *", "Europe/Berlin", utc(2026, 10, 24), ["24 02:30:15+02", "25 02:30:15+02", "26 02:30:15+01"]),
        ("15 30 2 * * *", "Europe/Berlin", utc(2026, 3, 28), ["28 02:30:15+01", "29 03:00:00+02", "30 02:30:15+02"]),
        ("0,30 2 * * *", "Europe/Berlin", utc(2026, 3, 29), ["29 03:00:00+02", "30 02:00:00+02", "30 02:30:00+02"]),
        ("15 2 * * *", "Australia/Lord_Howe", utc(2026, 10, 2, 16), ["04 02:30:00+11", "05 02:15:00+11"]),
        ("45 1 * * *", "Australia/Lord_Howe", utc(2026, 4, 4), ["05 01:45:00+11", "06 01:45:00+10"]),
        ("0 0 * * *", "America/Sao_Paulo", utc(2018, 11, 3, 12), ["04 01:00:00-02", "05 00:00:00-02"]),
        ("0 0 * * *", "America/Sao_Paulo", utc(2018, 2, 17, 12), ["18 00:00:00-03", "19 00:00:00-03"]),
        ("0 0 * * *", "Asia/Beirut", utc(2026, 3, 28, 12), ["29 01:00:00+03", "30 00:00:00+03"]),
        ("30 23 * * *", "America/Nuuk", utc(2026, 3, 28, 12), ["29 00:00:00-01", "29 23:30:00-01"]),
        ("0 12 * * *", "Pacific/Apia", utc(2011, 12, 29), ["29 12:00:00-10", "31 12:00:00+14"]),
        ("0 * * * *", "Europe/Berlin", utc(2026, 10, 24, 23, 30), ["25 02:00:00+02", "25 02:00:00+01", "25 03:00:00+01"]),
        ("0 * * * *", "Europe/Berlin", utc(2026, 3, 29, 0, 30), ["29 03:00:00+02", "29 04:00:00+02"]),
        ("0 */3 * * *", "Australia/Lord_Howe", utc(2026, 10, 3, 14), ["04 03:00:00+11", "04 06:00:00+11"]),
        ("30 */2 * * 0", "America/Sao_Paulo", utc(2018, 11, 3, 12), ["04 02:30:00-02", "04 04:30:00-02"]),
        ("0 0 29 2 *", "Asia/Kolkata", utc(2026, 3, 1), ["29 00:00:00+05", "29 00:00:00+05"]),
    ],
)  # fmt: skip
def test_an_instant_comes_once_for_each_local_day(pattern, zone, start, walls):
    assert on_the_wall(pattern, zone, start, len(walls)) == walls


def test_the_second_pass_through_a_repeated_hour_is_no_new_instant_of_it():
    between = utc(2026, 10, 25, 1, 15)  # 02:15 for the second time

    assert Timetable("30 2 * * *", "Europe/Berlin").next(between) == utc(2026, 10, 26, 1, 30)


def test_a_leap_day_is_waited_for_over_years():
    table = Timetable("0 6 29 2 *", "UTC")

    assert list(islice(table.after(utc(2096, 3, 1)), 2)) == [utc(2104, 2, 29, 6), utc(2108, 2, 29, 6)]


def test_a_fraction_of_a_second_is_later_than_its_second():
    moment = utc(2026, 1, 1, 5) + timedelta(milliseconds=1)

    assert Timetable("0 5 * * *", "UTC").next(moment) == utc(2026, 1, 2, 5)
    assert Timetable("0 5 * * *", "UTC").next(utc(2026, 1, 1, 5)) == utc(2026, 1, 2, 5)


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("0 0 */2 * 2", utc(2026, 5, 29)),  # the day or the weekday, as in the reference; `*/2` restricts
        ("0 0 ? * MON", utc(2026, 6, 1)),
        ("0 0 L * *", utc(2026, 5, 31)),
        ("0 0 * * FRI#2", utc(2026, 6, 12)),
        ("0 0 1 JAN 7", utc(2027, 1, 1)),
        ("0 0 13 * 5", utc(2026, 5, 29)),
    ],
)
def test_days_are_read_as_the_reference_reads_them(pattern, first):
    assert Timetable(pattern, "UTC").next(utc(2026, 5, 28, 12)) == first


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("31 2 *", "has 3 fields; it needs 5, or 6 with seconds first"),
        ("@daily", "has 1 fields; it needs 5, or 6 with seconds first"),
        ("* * * * * * *", "has 7 fields; it needs 5, or 6 with seconds first"),
        ("0 0 31 2 *", "has a wrong day-of-month, or a day that none of its months has"),
        ("0 0 30 2 *", "has a wrong day-of-month, or a day that none of its months has"),
        ("0 0 31 4,6,9,11 *", "has a wrong day-of-month, or a day that none of its months has"),
        ("60 * * * *", "has a wrong minute"),
        ("60 0 * * * *", "has a wrong second"),
        ("0 24 * * *", "has a wrong hour"),
        ("0 0 * 13 *", "has a wrong month"),
        ("0 0 * * 8", "has a wrong day-of-week"),
        ("0 0 * * MON-", "has a wrong day-of-week"),
        ("a b c d e", "has a wrong minute"),
        ("0 0 * * " + "1," * 200 + "1", "is longer than 256 characters"),
        ("\u0663 0 * * *", "has a wrong minute"),
    ],
)
def test_a_pattern_that_is_wrong_or_never_due_is_told(pattern, problem):
    assert pattern_problem(pattern) == problem


@given(st.text(alphabet="0123456789*/,-?L#WMON ", max_size=40) | st.text(max_size=300))
@settings(max_examples=400, deadline=None)
def test_no_text_makes_the_judge_of_patterns_fail(text):
    assert pattern_problem(text) is None or pattern_problem(text)


ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Asia/Beirut", "Africa/Casablanca", "America/Nuuk",
         "Pacific/Chatham", "America/Santiago", "Asia/Kathmandu"]  # fmt: skip
MINUTES = st.sampled_from(["0", "30", "*/20", "7,45", "*"])
HOURS = st.sampled_from(["*", "*/2", "*/5", "0", "1", "2", "3", "23", "0-4", "2,3", "1-23/2", "0-23"])
DAYS = st.sampled_from(["*", "*/2", "1-15", "28,29"])
WEEKDAYS = st.sampled_from(["*", "0", "1-5", "6,7"])


@given(MINUTES, HOURS, DAYS, WEEKDAYS, st.sampled_from(ZONES), st.sampled_from([
    utc(2026, 2, 14), utc(2026, 3, 7), utc(2026, 3, 21), utc(2026, 4, 1), utc(2026, 9, 1), utc(2026, 9, 24),
    utc(2026, 10, 24), utc(2026, 10, 31)]))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_the_instants_are_those_of_whoever_walks_through_every_minute(
    minutes, hours, days, weekdays, zone, start
):
    pattern = f"{minutes} {hours} {days} * {weekdays}"
    end = start + timedelta(days=8)

    found, _ = Timetable(pattern, zone).come(start, end, 100_000)

    assert found == instants(pattern, zone, start, end)
