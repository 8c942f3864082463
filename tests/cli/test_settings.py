"""`set`, `unset`: one key of the overlay at a time, before and after."""

import json

import pytest


@pytest.fixture
def overlay(bare, tmp_path):
    return tmp_path / "home" / "settings.json"


def test_a_key_is_set_in_the_home_and_shown_before_and_after(command, overlay):
    first, second = command("set", "dailyCap", "5"), command("set", "dailyCap", "6")

    assert (first.code, first.out) == (0, f"dailyCap: unset (25 holds) → 5  ({overlay})\n")
    assert second.out == f"dailyCap: 5 → 6  ({overlay})\n"
    assert json.loads(overlay.read_text()) == {"dailyCap": 6}


def test_a_key_is_taken_out_and_what_holds_then_is_shown(command, overlay, bare):
    bare.setenv("PI_WEEKLY_CAP", "70")
    command("set", "weeklyCap", "50")

    said = command("unset", "weeklyCap", "--json")

    assert said.document == {
        "key": "weeklyCap",
        "before": "50",
        "after": None,
        "beneath": "70",
        "file": str(overlay),
    }
    assert overlay.read_text() == "{}\n"


def test_nothing_is_made_where_nothing_is_taken_away(command, overlay):
    assert command("unset", "dailyCap").code == 0
    assert not overlay.exists()


def test_a_value_that_is_not_accepted_changes_nothing(command, overlay):
    command("set", "dailyCap", "5")

    for arguments in (
        ("set", "dailyCap", "0"),
        ("set", "theme", "x"),
        ("set", "concurrency", "11"),
        ("unset", "theme"),
    ):
        said = command(*arguments)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("pidispatch: ")
    assert json.loads(overlay.read_text()) == {"dailyCap": 5}


def test_a_window_of_dollars_needs_the_cap_of_one_run(command, overlay):
    said = command("set", "dailyCostUsd", "20")
    assert said.code == 2
    assert "needs the cap of one run as well" in said.err
    assert not overlay.exists()

    command("set", "maxCostUsd", "2.50")
    assert command("set", "dailyCostUsd", "20").code == 0
    assert command("unset", "maxCostUsd").code == 2
    assert json.loads(overlay.read_text()) == {"maxCostUsd": "2.50", "dailyCostUsd": "20"}


def test_a_broken_file_is_left_as_it_is(command, overlay):
    overlay.parent.mkdir(parents=True)
    overlay.write_text('{"dailyCap": 5,')

    said = command("set", "dailyCap", "6")

    assert said.code == 2
    assert f"{overlay}:1: is not valid JSON" in said.err
    assert overlay.read_text() == '{"dailyCap": 5,'


def test_a_value_that_begins_with_a_dash_is_no_option(command, overlay):
    assert "dailyCap must be" in command("set", "dailyCap", "--", "-5").err
