"""A one-shot that is spent is told before anything is asked of the engine, and explained."""

import pytest
from sqlalchemy import text

from pidispatch.domain.runs.ask import Ask
from pidispatch.domain.runs.explain import Verdict, gate_lines
from pidispatch.domain.triggers.oneshot import marked_by_another
from pidispatch.domain.triggers.trigger import Disarmed, IssueEvent, LabelEvent, Trigger, Triggers, Work
from tests.store.builders import a_run, an_admitted_run, assert_ledger_is_exact, row, value

ENTRY = Trigger(0, 1, IssueEvent(("closed",), 7, once=True), Work("github", Ask(flow="fix")), id="once")


def a_one_shot_run(site):
    run_id = a_run(site.database)
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET one_shot = 'once' WHERE id = :id"), {"id": run_id})
    return run_id


def an_end(site, run_id):
    return row(site.database, "SELECT state, outcome, reason, why FROM runs WHERE id = :id", id=run_id)


def facts(site, run_id):
    return value(site.database, "SELECT admission FROM runs WHERE id = :id", id=run_id)


def test_a_run_whose_one_shot_another_spent_is_refused_before_the_engine_is_asked(site):
    first = an_admitted_run(site.database)
    with site.database.transaction() as connection:
        spent = text("INSERT INTO one_shots (key, run_id) VALUES ('once', :id)")
        connection.execute(spent, {"id": first.run_id})
    run_id = a_one_shot_run(site)
    site.images.down = True

    assert site.gate.admit() is None

    assert an_end(site, run_id) == {
        "state": "ended",
        "outcome": "policy",
        "reason": "once-already-spent",
        "why": "by-another-run",
    }
    lines = gate_lines(facts(site, run_id))
    assert [(line.gate, line.verdict) for line in lines[:3]] == [
        ("settings", Verdict.PASSED),
        ("one-shot", Verdict.STOPPED),
        ("image", Verdict.NOT_REACHED),
    ]
    assert lines[1].saw == {"key": "once", "spent_by": first.public_id, "at": None}
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize(
    ("mark", "refused"),
    [
        (None, False),
        (Disarmed("2026-11-29T12:00:00Z"), True),
        (Disarmed("2026-11-29T12:00:00Z", "another"), True),
        (Disarmed("2026-11-29T12:00:00Z", "ME"), False),
    ],
)
def test_a_mark_in_the_file_refuses_every_run_but_the_one_it_names(site, mark, refused):
    run_id = a_one_shot_run(site)
    me = value(site.database, "SELECT public_id FROM runs")
    if mark is not None and mark.job_id == "ME":
        mark = Disarmed(mark.at, me)
    file = Triggers((Trigger(0, 1, ENTRY.on, ENTRY.work, id="once", disarmed=mark),))
    site.gate._checks._mark = lambda key, run: marked_by_another(file, key, run)

    claim = site.gate.admit()

    assert (claim is None) == refused
    if refused:
        assert an_end(site, run_id)["why"] == "by-a-mark-in-the-file"
        assert facts(site, run_id)["gates"]["one-shot"]["at"] == mark.at


def test_a_mark_of_an_entry_that_is_gone_or_is_no_one_shot_any_more_refuses_nothing():
    mark = Disarmed("yesterday")
    label = Trigger(0, 1, LabelEvent(ENTRY.on), ENTRY.work, id="once", disarmed=mark)

    assert marked_by_another(Triggers(), "once", "me") is None
    assert marked_by_another(Triggers((label,)), "once", "me") is None
