"""The triggers in force: what is judged before it is used, and what stays when an edit is bad."""

import json

import pytest

from pidispatch.app.standing import StandingTriggers
from pidispatch.domain.triggers.trigger import Triggers
from pidispatch.errors import ConfigurationRefused


def content(*patterns):
    entries = [
        {
            "on": {"type": "cron", "id": f"s{number}", "pattern": pattern},
            "run": {"kind": "local", "folder": "/repos/x", "flow": "tidy", "task": "tidy up"},
        }
        for number, pattern in enumerate(patterns)
    ]
    return json.dumps({"triggers": entries})


@pytest.fixture
def file(tmp_path):
    return tmp_path / "triggers.json"


def test_without_a_file_there_are_no_triggers():
    standing = StandingTriggers(None)
    standing.load()

    assert (standing.current(), standing.problem) == (Triggers(), None)


def test_a_pattern_that_is_never_due_refuses_the_file_with_its_place(file):
    file.write_text(content("0 0 * * *", "0 0 31 2 *", "0 0 * *"))

    with pytest.raises(ConfigurationRefused) as refusal:
        StandingTriggers(file).load()

    never, short = refusal.value.problems
    assert (
        'triggers[1] (id "s1"): on.pattern has a wrong day-of-month, or a day that none of its months has'
        in never
    )
    assert (
        'triggers[2] (id "s2"): on.pattern must have 5 fields, or 6 with seconds first; this has 4' in short
    )


def test_an_entry_that_would_let_its_runs_spend_more_than_is_configured_refuses_the_file(file):
    entries = json.loads(content("0 0 * * *"))
    entries["triggers"][0]["run"]["maxCostUsd"] = "2.50"
    file.write_text(json.dumps(entries))
    StandingTriggers(file).load()
    StandingTriggers(file, max_cost_micros=2_500_000).load()

    with pytest.raises(ConfigurationRefused, match=r"run\.maxCostUsd must not be above PI_MAX_COST_USD"):
        StandingTriggers(file, max_cost_micros=2_499_999).load()


def test_a_bad_edit_keeps_the_last_good_set_and_says_so(file):
    file.write_text(content("0 0 * * *"))
    standing = StandingTriggers(file)
    standing.load()
    good = standing.current()

    for bad in (content("0 0 31 2 *"), "{"):
        file.write_text(bad)
        assert standing.current() == good
        assert standing.problem is not None

    file.write_text(content("5 0 * * *"))
    assert standing.current() != good
    assert standing.problem is None


def test_a_file_that_is_named_and_missing_refuses_the_start(file):
    with pytest.raises(ConfigurationRefused, match=r"triggers\.json"):
        StandingTriggers(file).load()
