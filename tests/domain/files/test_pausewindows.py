"""`pause-windows.json`: its grammar; when a window is open is told in test_pause."""

import contextlib
import json
from datetime import date, time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.limits.pauses import PauseWindow
from pidispatch.domain.limits.pausesfile import parse_pause_windows
from pidispatch.errors import ConfigurationRefused

NIGHT = {"scope": "acme/web", "from": "22:00", "to": "06:00"}


def parse(*windows, **more):
    return parse_pause_windows(json.dumps({"windows": list(windows), **more}).encode(), "pause.json")


def refused(*windows):
    with pytest.raises(ConfigurationRefused) as error:
        parse(*windows)
    return "\n".join(error.value.problems)


def test_a_window_is_read_whole():
    found = parse({**NIGHT, "tz": "Europe/Berlin", "days": ["Mon", "TUESDAY", "sat"], "dateFrom": "2026-01-31",
                   "dateTo": "2026-12-24"})  # fmt: skip

    assert found.windows == (
        PauseWindow("acme/web", time(22), time(6), "Europe/Berlin", frozenset({0, 1, 5}), date(2026, 1, 31), date(2026, 12, 24)),
    )  # fmt: skip


def test_what_is_left_out_or_null_bounds_nothing():
    plain = PauseWindow("acme/web", time(22), time(6))

    assert parse(NIGHT).windows == (plain,)
    assert parse({**NIGHT, "tz": None, "days": None, "dateFrom": None, "dateTo": None}).windows == (plain,)
    assert parse().windows == ()


def test_the_file_is_an_object_with_a_list():
    for content in (b"[]", b"null"):
        with pytest.raises(ConfigurationRefused, match='must be an object with "windows"'):
            parse_pause_windows(content, "f")
    with pytest.raises(ConfigurationRefused, match="windows must be a list"):
        parse_pause_windows(b"{}", "f")


@pytest.mark.parametrize(
    "scope", ["*", "/srv/site/", "acme/web", "group/sub/x", "github:acme/web", "azure:a/b/c"]
)
def test_a_scope_stays_as_it_was_written(scope):
    found = parse({**NIGHT, "scope": scope})

    assert found.windows[0].scope == scope
    assert found.notes == ()


@pytest.mark.parametrize("scope", ["site", "C:\\x"])
def test_a_scope_that_reaches_nothing_is_noted(scope):
    assert "names no absolute folder and no owner/name" in parse({**NIGHT, "scope": scope}).notes[0]


@pytest.mark.parametrize("scope", ["~/site", "./site", "../site", "~", ".", " ~/site"])
def test_a_folder_that_is_not_absolute_is_refused(scope):
    assert "must be an absolute folder" in refused({**NIGHT, "scope": scope})


@pytest.mark.parametrize(
    "scope",
    [None, "", " ", 5, "git:acme/web", "GitHub:acme/web", "project:web", "model:a/b", "github:web", "github:acme/",
     "github:acme/web#3", "github:a:b/c", "github: acme/web"],
)  # fmt: skip
def test_a_scope_with_an_unknown_prefix_or_no_repository_is_refused(scope):
    assert "scope" in refused({**NIGHT, "scope": scope})


@pytest.mark.parametrize(
    "written",
    ["24:00", "23:60", "2200", "22:0", "22:00:00", " 22:00", "022:00", "", None, 22, "-1:00", "٢٢:00"],
)
@pytest.mark.parametrize("field", ["from", "to"])
def test_a_time_has_hours_and_minutes(field, written):
    assert f"{field} must be a time from 00:00 to 23:59" in refused({**NIGHT, field: written})


def test_hours_may_have_one_digit():
    assert parse({**NIGHT, "from": "9:05", "to": "0:00"}).windows[0].begin == time(9, 5)


def test_begin_and_end_differ():
    assert "to must differ from from" in refused({**NIGHT, "from": "9:00", "to": "09:00"})


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "+02:00", "../../etc/passwd", "/etc/localtime", "Europe", "posixrules", 5, "zone.tab", "a\0b"])  # fmt: skip
def test_a_zone_is_one_of_the_database(zone):
    assert "tz must be" in refused({**NIGHT, "tz": zone})


@pytest.mark.parametrize(
    ("written", "name"), [("europe/berlin", "Europe/Berlin"), ("utc", "UTC"), ("Etc/GMT+5", "Etc/GMT+5")]
)
def test_a_zone_is_known_in_any_case(written, name):
    assert parse({**NIGHT, "tz": written}).windows[0].zone == name


@pytest.mark.parametrize("days", [[], "Mon", ["Mo"], ["Mon", 2], ["Montag!", "xyz"], {}, [None]])
def test_days_are_weekdays(days):
    assert "days must be a list of at least one weekday" in refused({**NIGHT, "days": days})


@pytest.mark.parametrize(
    "written", ["2026-02-30", "2026-13-01", "20260101", "2026-1-1", "2026-W01-1", 20260101, "0000-01-01", ""]
)
@pytest.mark.parametrize("field", ["dateFrom", "dateTo"])
def test_dates_are_of_the_calendar(field, written):
    assert f"{field} must be a date of the calendar" in refused({**NIGHT, field: written})


def test_dates_are_in_order_and_may_be_one_day():
    assert "dateTo must not be before dateFrom" in refused(
        {**NIGHT, "dateFrom": "2026-02-02", "dateTo": "2026-02-01"}
    )
    assert parse({**NIGHT, "dateFrom": "2026-02-02", "dateTo": "2026-02-02"})


def test_unknown_fields_are_dropped_and_noted():
    assert len(parse({**NIGHT, "why": "deploys"}, version=9).notes) == 2


@pytest.mark.parametrize(
    "key", ["timezone", "TZ", "zone", "day", "weekdays", "until", "date_from", "dateto", "d\u0430ys"]
)
def test_a_key_that_was_meant_to_say_when_is_refused(key):
    assert "is not a key" in refused({**NIGHT, key: "x"})


def test_all_problems_are_told_with_entry_and_field():
    said = refused({"scope": "x:y/z", "from": "1", "to": "2"}, {**NIGHT, "tz": "no"})

    assert [line.split(": ", 2)[1] for line in said.splitlines()] == ['windows[0] (scope "x:y/z")'] * 3 + [
        'windows[1] (scope "acme/web")'
    ]


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=6)
    | st.sampled_from(["22:00", "6:00", "UTC", "2026-01-01"])
)
ENTRIES = st.dictionaries(
    st.sampled_from(["scope", "from", "to", "tz", "days", "dateFrom", "dateTo"]), VALUES
)


@settings(deadline=None)  # the first look at a zone lists them all
@given(st.lists(ENTRIES | VALUES, max_size=3))
def test_no_content_raises_anything_but_a_refusal(entries):
    with contextlib.suppress(ConfigurationRefused):
        parse(*entries)
