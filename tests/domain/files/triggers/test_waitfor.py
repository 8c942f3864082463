"""`run.waitFor`: what must be true before a run starts."""

from datetime import UTC, datetime

import pytest

from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.triggers.grammar.waitfor import instant_of
from tests.domain.files.triggers.builders import BY_NAME, CRON, ISSUE, LABEL, changed, one, refused

AFTER = {"after": "2026-09-01T09:00:00Z"}
NINE = datetime(2026, 9, 1, 9, tzinfo=UTC)


def waiting(*conditions):
    return changed(LABEL, run={"waitFor": list(conditions)})


def test_conditions_are_read_in_their_order():
    found = one(waiting({"profile": "jira"}, AFTER, {"profile": "Ci.2_x-y"})).work.wait_for

    assert found == (WaitProfile("jira"), WaitAfter(NINE), WaitProfile("Ci.2_x-y"))


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ([], "run.waitFor must be a list of 1 to 4 conditions"), ({}, "run.waitFor must be a list"), (None, "run.waitFor must be a list"),
        ([{"profile": n} for n in "abcde"], "run.waitFor must be a list of 1 to 4"),
        (["x"], 'run.waitFor[0] must be an object with exactly one of "after" and "profile"'),
        ([{}], "run.waitFor[0] must be an object with exactly one"), ([{**AFTER, "profile": "x"}], "run.waitFor[0] must be an object"),
        ([{"exclusive": True}], "run.waitFor[0] exclusive is no condition"),
        ([AFTER, {"before": "x"}], 'run.waitFor[1] holds the unknown condition "before"; known are after, profile'),
        ([{"After": "x"}], 'holds the unknown condition "After"'), ([AFTER, AFTER], "run.waitFor[1] is a second after"),
        ([{"profile": "a"}, {"profile": "a"}], "run.waitFor[1] names a profile a second time"),
        ([{"profile": ""}], "run.waitFor[0] profile must be a text"), ([{"profile": 5}], "run.waitFor[0] profile must be a text"),
        ([{"profile": "a:b"}], "run.waitFor[0] profile must be of letters, digits"),
        ([{"after": "2026-09-01T09:00:00"}], "run.waitFor[0] after must be an instant with its zone"), ([{"after": 5}], "after must be"),
    ],
)  # fmt: skip
def test_what_is_no_condition_is_refused(written, problem):
    assert problem in refused(changed(LABEL, run={"waitFor": written}))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-09-01T09:00Z", NINE), ("2026-09-01t09:00:00z", NINE), ("2026-09-01T11:00:00+02:00", NINE), ("2026-09-01T05:30-03:30", NINE),
        ("2026-09-01T09:00:00.5Z", NINE.replace(microsecond=500_000)), ("2026-09-01T09:00:00.1234567899Z", NINE.replace(microsecond=123_456)),
        ("2024-02-29T00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)  # fmt: skip
def test_an_instant_has_its_zone(text, instant):
    assert instant_of(text) == instant


@pytest.mark.parametrize(
    "text",
    ["2026-09-01", "2026-09-01T09:00", "2026-02-31T00:00Z", "2026-02-29T00:00Z", "2026-13-01T00:00Z", "2026-09-01T24:00Z", "2026-09-01T09:60Z",
     "2026-09-01T09:00:60Z", "2026-09-01 09:00Z", "2026-09-01T09:00+2", "2026-09-01T09:00+24:00", "2026-9-1T09:00Z", "0000-01-01T00:00Z",
     "0001-01-01T00:00+14:00", "9999-12-31T23:59-01:00", "2026-09-01T09:00Z\n", "\u0662026-09-01T09:00Z", "", "tomorrow"],
)  # fmt: skip
def test_what_is_no_instant_is_none(text):
    assert instant_of(text) is None


def test_a_wait_goes_with_events_alone_and_not_with_what_runs_once_or_several_times():
    wait = {"waitFor": [AFTER]}

    assert "run.waitFor does not go with cron" in refused(changed(CRON, run=wait))
    assert "run.waitFor does not go with on.once" in refused(changed(ISSUE, run=wait))
    assert "run.waitFor does not go with run.replicas" in refused(changed(LABEL, run={**wait, "replicas": 2}))
    for name in ("label", "comment", "pull", "azure"):
        one(changed(BY_NAME[name], run=wait))
    one(changed(ISSUE, on={"once": False}, run=wait))
