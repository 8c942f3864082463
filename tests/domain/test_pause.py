"""When a window is open and until when, against a model that looks at the wall's clock minute by minute."""

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.limits.pauses import PauseWindow, PauseWindows

MINUTE = timedelta(minutes=1)
# A day on which clocks change, in zones that change at 02:00, at midnight, by half an hour, backwards in winter.
CHANGES = {
    "Europe/Berlin": (date(2026, 3, 29), date(2026, 10, 25)),
    "America/New_York": (date(2026, 3, 8), date(2026, 11, 1)),
    "Australia/Lord_Howe": (date(2026, 4, 5), date(2026, 10, 4)),
    "America/Santiago": (date(2026, 4, 4), date(2026, 9, 6)),
    "Asia/Beirut": (date(2026, 3, 29), date(2026, 10, 24)),
    "Africa/Casablanca": (date(2026, 2, 15), date(2026, 3, 22)),
}


def shows(window, wall):
    """Straight from the rule, on the wall's clock as text."""
    clock, begin, end = (f"{each:%H:%M}" for each in (wall, window.begin, window.end))
    if begin < end:
        open_now, day = begin <= clock < end, wall.date()
    else:
        open_now, day = clock >= begin or clock < end, wall.date() - timedelta(days=clock < begin)
    return (
        open_now
        and (window.days is None or day.weekday() in window.days)
        and (window.first is None or day >= window.first)
        and (window.last is None or day <= window.last)
    )


@lru_cache(maxsize=100_000)
def wall(zone, at):
    return at.astimezone(ZoneInfo(zone))


def slow_until(window, now):
    """Step through whole minutes until the wall no longer shows a time of the window."""
    if not shows(window, wall(window.zone, now)):
        return None
    at = now.replace(second=0, microsecond=0)
    while shows(window, wall(window.zone, at)):
        at += MINUTE
    return at


TIMES = st.builds(time, st.integers(0, 23), st.sampled_from([0, 1, 15, 29, 30, 31, 45, 59]))
ZONE_AND_DAY = st.sampled_from([(zone, day) for zone, days in CHANGES.items() for day in days])


@settings(max_examples=300, deadline=None)
@given(
    ZONE_AND_DAY, TIMES, TIMES, st.integers(-24 * 60, 48 * 60), st.integers(0, 59),
    st.none() | st.frozensets(st.integers(0, 6), min_size=1), st.none() | st.integers(-1, 1), st.none() | st.integers(-1, 1),
)  # fmt: skip
def test_a_window_is_open_while_the_wall_shows_it(where, begin, end, minutes, seconds, days, first, last):
    if begin == end:
        return
    zone, day = where
    bounds = [day + timedelta(days=each) if each is not None else None for each in (first, last)]
    window = PauseWindow("*", begin, end, zone, days, *bounds)
    now = datetime.combine(day, time(), UTC) + timedelta(
        minutes=minutes, seconds=seconds, microseconds=7 * seconds
    )

    assert window.until(now) == slow_until(window, now)


@pytest.mark.parametrize("zone", CHANGES)
def test_every_quarter_of_the_days_on_which_clocks_change_agrees(zone):
    for day in CHANGES[zone]:
        for begin, end in (
            ("02:30", "03:30"),
            ("23:30", "00:30"),
            ("00:00", "01:00"),
            ("01:30", "02:15"),
            ("22:00", "06:00"),
        ):
            window = PauseWindow("*", time.fromisoformat(begin), time.fromisoformat(end), zone)
            midnight = datetime.combine(day, time(), UTC) - timedelta(hours=14)
            for quarter in range(4 * 52):
                now = midnight + timedelta(minutes=15 * quarter)
                assert window.until(now) == slow_until(window, now), (window, now)


def at(text):
    return datetime.fromisoformat(text)


BERLIN_HALF_PAST_TWO = PauseWindow("*", time(2, 30), time(3, 30), "Europe/Berlin")


def test_a_window_that_begins_in_skipped_time_begins_when_the_clock_is_put_on():
    spring = BERLIN_HALF_PAST_TWO

    assert spring.until(at("2026-03-29T01:59:59+01:00")) is None
    assert spring.until(at("2026-03-29T03:00:00+02:00")) == at("2026-03-29T03:30:00+02:00")


def test_a_window_in_skipped_time_does_not_open():
    window = PauseWindow("*", time(2), time(3), "Europe/Berlin")

    assert all(window.until(at("2026-03-29T00:00:00Z") + n * MINUTE) is None for n in range(180))


def test_a_repeated_hour_is_open_both_times():
    window = PauseWindow("*", time(2, 15), time(2, 45), "Europe/Berlin")

    assert window.until(at("2026-10-25T02:20:00+02:00")) == at("2026-10-25T02:45:00+02:00")
    assert window.until(at("2026-10-25T02:50:00+02:00")) is None
    assert window.until(at("2026-10-25T02:20:00+01:00")) == at("2026-10-25T02:45:00+01:00")


def test_a_window_over_a_repeated_hour_is_longer_by_it_and_over_a_skipped_one_shorter():
    night = PauseWindow("*", time(22), time(6), "Europe/Berlin")

    assert night.until(at("2026-10-24T22:00:00+02:00")) == at("2026-10-25T06:00:00+01:00")
    assert night.until(at("2026-03-28T22:00:00+01:00")) == at("2026-03-29T06:00:00+02:00")
    assert BERLIN_HALF_PAST_TWO.until(at("2026-10-25T02:40:00+02:00")) == at("2026-10-25T02:00:00+01:00")


def test_the_end_is_not_in_the_window_and_the_begin_is():
    window = PauseWindow("*", time(9), time(17))

    assert window.until(at("2026-05-05T09:00:00Z")) == at("2026-05-05T17:00:00Z")
    assert window.until(at("2026-05-05T16:59:59.999999Z")) == at("2026-05-05T17:00:00Z")
    assert window.until(at("2026-05-05T17:00:00Z")) is None
    assert window.until(at("2026-05-05T08:59:59.999999Z")) is None


def test_days_and_dates_speak_of_the_day_on_which_a_night_begins():
    friday = PauseWindow(
        "*", time(22), time(6), days=frozenset({4}), first=date(2026, 5, 8), last=date(2026, 5, 8)
    )

    assert friday.until(at("2026-05-08T23:00:00Z")) == at("2026-05-09T06:00:00Z")
    assert friday.until(at("2026-05-09T05:59:00Z")) == at("2026-05-09T06:00:00Z")
    assert friday.until(at("2026-05-08T05:00:00Z")) is None  # that night began on Thursday
    assert friday.until(at("2026-05-09T23:00:00Z")) is None


def test_scopes_match_however_their_folder_or_repository_is_spelled():
    def reaches(scope, kind, text):
        return PauseWindow(scope, time(0), time(1)).covers(kind, text)

    assert reaches("*", "local", "/srv/site")
    assert reaches("*", "github", "acme/web")
    assert reaches("/srv/site", "local", "/srv/site")
    for spelled in ("/srv/site/", "//srv//site", "/srv/./site", "/srv/x/../site/", " /srv/site "):
        assert reaches(spelled, "local", "/srv/site")
        assert reaches("/srv/site", "local", spelled)
    assert not reaches("/srv", "local", "/srv/site")
    assert not reaches("/srv/site/deeper", "local", "/srv/site")
    assert reaches("acme/web/", "github", "acme/web")
    assert reaches(" github:acme/web/", "github", "acme/web")
    assert reaches("acme/web", "github", "acme/web")
    assert reaches("acme/web", "gitlab", "acme/web")
    assert reaches("github:acme/web", "github", "acme/web")
    assert not reaches("github:acme/web", "gitlab", "acme/web")
    assert not reaches("acme/web", "github", "Acme/web")


def test_the_latest_end_of_the_open_windows_counts():
    windows = PauseWindows(
        (
            PauseWindow("*", time(9), time(12)),
            PauseWindow("acme/web", time(10), time(15)),
            PauseWindow("acme/web", time(11), time(20)),
            PauseWindow("acme/api", time(0), time(23)),
        )
    )
    half_past_ten = at("2026-05-05T10:30:00Z")

    assert windows.until("github", "acme/web", half_past_ten) == at("2026-05-05T15:00:00Z")
    assert [index for index, _ in windows.open("github", "acme/web", half_past_ten)] == [0, 1]
    assert windows.until("local", "/srv", half_past_ten) == at("2026-05-05T12:00:00Z")
    assert windows.until("local", "/srv", at("2026-05-05T12:00:00Z")) is None
    assert PauseWindows().until("local", "/srv", half_past_ten) is None


def test_the_answer_is_in_utc_whatever_zone_now_has():
    window = PauseWindow("*", time(9), time(17), "Asia/Kathmandu")

    until = window.until(at("2026-05-05T09:30:00+05:45").astimezone(ZoneInfo("America/New_York")))

    assert until == at("2026-05-05T17:00:00+05:45")
    assert until.tzinfo is UTC
