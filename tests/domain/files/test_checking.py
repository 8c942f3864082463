"""Judge a file by its name or its content, and files that speak of each other together."""

import pytest

from pidispatch.domain.files.checking import FileKind, beside_each_other, check

ROWS = b'{"version": 2, "limits": [{"scope": "project:web", "day": 1}]}'
PROJECTS = b'{"version": 1, "projects": [{"id": "web", "members": ["/srv/site"]}]}'
TRIGGERS = b'{"triggers": [{"on": {"type": "label", "any": ["pi"]}, "run": {"kind": "github", "flow": "fix", "x": 1}}]}'
PRICES = b'{"version": 1, "models": {"a/b": {"input": 1, "output": 2}}, "free": ["c/*", "d/e"], "plan": {"p": ["f/g"]}}'
OTHERS = b'{"version": 1, "projects": [{"id": "api", "members": ["/srv/api"]}]}'


@pytest.mark.parametrize(
    ("file", "content", "kind"),
    [
        ("/etc/pi/scoped-limits.json", b"{}", "scoped-limits"), ("my-Projects.json", b"{", "projects"),
        ("pause-windows.json.new", b"[]", "pause-windows"), ("settings.json", b"{}", "settings"),
        ("a.json", ROWS, "scoped-limits"), ("a.json", PROJECTS, "projects"), ("a.json", b'{"windows": []}', "pause-windows"),
        ("/etc/pi/triggers.json", b"{", "triggers"), ("a.json", b'{"triggers": []}', "triggers"),
        ("a.json", b'{"dailyCap": 0}', "settings"), ("a.json", b"{}", None), ("a.json", b"[]", None),
        ("prices.json", b"{", "prices"), ("a.json", b'{"version": 1, "models": {}, "free": []}', "prices"),
        ("a.json", b'{"limits": 1, "windows": 1}', None), ("a.json", b'{"x": 1}', None),
    ],
)  # fmt: skip
def test_name_or_content_tells_what_a_file_is(file, content, kind):
    found = check(file, content)

    assert found.kind == kind
    assert ("--as" in "".join(found.problems)) is (kind is None)


def test_what_was_said_wins_over_the_name():
    assert check("settings.json", ROWS, FileKind.SCOPED_LIMITS).summary == "version 2, 1 row, 1 cap"


def test_a_file_that_is_no_json_says_so_also_when_nothing_tells_what_it_is():
    assert check("a.json", b"{").problems[0].startswith("a.json:1: is not valid JSON")


@pytest.mark.parametrize(
    ("content", "summary"),
    [(PROJECTS, "1 project, 1 member"), (b'{"windows": []}', "0 windows"), (b'{"dailyCap": 5, "model": "x", "y": 1}', "2 keys"),
     (PRICES, "1 price, 2 free, 1 in a plan"), (b'{"triggers": []}', "0 triggers, 0 schedules"), (TRIGGERS, "1 trigger, 0 schedules")],
)  # fmt: skip
def test_a_summary_counts(content, summary):
    assert check("a.json", content).summary == summary


def test_projects_of_the_same_call_are_held_against_the_rows():
    limits = check("l", ROWS)

    assert "check it together" in beside_each_other([limits])[0].notes[0]
    assert not beside_each_other([limits, check("p", PROJECTS)])[0].problems
    refused, fine = beside_each_other([limits, check("p", OTHERS)])
    assert "names a project" in refused.problems[0]
    assert refused.summary == "refused"
    assert not fine.problems


def test_a_window_of_dollars_without_a_cap_of_one_run_is_noted():
    assert "PI_MAX_COST_USD must be set" in check("settings.json", b'{"dailyCostUsd": 5}').notes[0]
    assert not check("settings.json", b'{"dailyCostUsd": 5, "maxCostUsd": 1}').notes


def test_triggers_are_checked_with_their_notes():
    assert check("triggers.json", TRIGGERS).notes == (
        "triggers.json:1: triggers[0]: run.x is unknown here and ignored",
    )
    assert check("triggers.json", TRIGGERS.replace(b'["pi"]', b"5")).summary == "refused"
