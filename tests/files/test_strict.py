"""A file that must be right at each reading: nothing stands in for a bad edit."""

import pytest
from structlog.testing import capture_logs

from pidispatch.domain.limits.settings import Overlay, parse_overlay
from pidispatch.files import StrictFile, Unusable


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.json"


@pytest.fixture
def file(path):
    return StrictFile("settings_overlay", path, lambda content: parse_overlay(content, str(path)))


def test_a_missing_file_is_empty(file):
    assert file.read() == Overlay()
    assert file.problem is None


def test_each_reading_says_what_the_file_says_then(file, path):
    with capture_logs() as logs:
        assert file.read() == Overlay()
        path.write_text('{"dailyCap": 5}')
        assert file.read().daily_cap == 5
        path.write_text('{"dailyCap": 0}')
        for _ in range(3):
            assert isinstance(file.read(), Unusable)
        assert "dailyCap must be an integer" in file.problem
        path.write_text('{"dailyCap": 6}')
        assert file.read().daily_cap == 6
        path.write_text("{}")
        assert file.read() == Overlay()

    assert [each["event"].removeprefix("settings_overlay_") for each in logs] == [
        "reloaded",
        "invalid",
        "reloaded",
        "reloaded",
    ]


def test_a_file_that_is_gone_lifts_nothing_and_says_so(file, path):
    path.write_text('{"dailyCap": 5}')
    assert file.read().daily_cap == 5

    with capture_logs() as logs:
        path.unlink()
        assert file.read().daily_cap == 5
        assert "is not there any more" in file.problem
        path.write_text("{}")
        assert (file.read(), file.problem) == (Overlay(), None)

    assert [each["event"] for each in logs] == ["settings_overlay_invalid", "settings_overlay_reloaded"]
    assert logs[0]["kept"] == "the last good edit"


def test_a_file_that_cannot_be_read_is_unusable_and_back_again(file, path):
    path.write_text('{"dailyCap": 5}')
    assert file.read().daily_cap == 5
    path.rename(path.with_suffix(".away"))
    path.mkdir()
    assert isinstance(file.read(), Unusable)

    path.rmdir()
    path.with_suffix(".away").rename(path)

    assert file.read().daily_cap == 5


def test_a_link_in_a_circle_is_unusable(file, path):
    path.symlink_to(path)

    assert isinstance(file.read(), Unusable)
    assert "cannot be read" in file.problem


def test_a_bad_file_at_the_start_is_told(file, path):
    path.write_text("{")

    with capture_logs() as logs:
        assert isinstance(file.read(), Unusable)
        assert isinstance(file.read(), Unusable)

    assert [each["event"] for each in logs] == ["settings_overlay_invalid"]


def test_dropped_keys_are_logged_once(file, path):
    path.write_text('{"theme": 1}')

    with capture_logs() as logs:
        file.read()
        file.read()

    assert [(each["event"], each["notes"]) for each in logs] == [
        ("settings_overlay_loaded", [f'{path}:1: "theme" is unknown and ignored'])
    ]
