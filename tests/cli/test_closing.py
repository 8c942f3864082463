"""A trigger that is held back: where an operator sees it, and how it starts again."""

import json

import pytest

from pidispatch.app.verbs.control import NoSuchTrigger
from pidispatch.entrypoints.cli.triggercontrol import close
from tests.store.builders import a_host, value
from tests.support.breaking import a_run_of, end_as, fail, open_one, some_breakers


@pytest.fixture
def held_back(pidispatch, database):
    a_host(database)
    open_one(database)
    return pidispatch


def test_status_shows_it(held_back):
    said = held_back("status")

    (line,) = [line for line in said.out.splitlines() if line.startswith("held back")]
    assert line.startswith("held back: trigger nightly since 2")
    assert "3 failures in a row (infra); the next run from 2" in line
    assert line.endswith("`pidispatch triggers close` ends it")
    (found,) = held_back("status", "--json").document["breakers"]
    assert (found["trigger_id"], found["reason"], found["failures"]) == ("nightly", "infra", 3)


def test_explain_of_a_run_that_it_stopped_says_so(held_back, database):
    a_run_of(database, name="stopped")
    end_as(
        database, value(database, "SELECT id FROM runs WHERE public_id = 'stopped'"), "policy", "breaker-open"
    )

    assert "held back: trigger nightly since 2" in held_back("explain", "stopped").out
    assert held_back("explain", "stopped", "--json").document["breaker"]["trigger_id"] == "nightly"


def test_explain_counts_failures_that_do_not_hold_it_back_yet(pidispatch, database):
    fail(database)
    some_breakers(database).count()
    a_run_of(database, name="next")

    assert "trigger nightly: 1 failure in a row (infra)" in pidispatch("explain", "next").out


def test_the_doctor_warns_of_it(held_back):
    assert "held back after failures: nightly (infra, 3 times)" in " ".join(held_back("doctor").out.split())


def test_closing_it_says_what_it_was(held_back, capfd):
    close("nightly")
    assert "nightly was held back since 2" in capfd.readouterr().out

    close("nightly", as_json=True)
    assert json.loads(capfd.readouterr().out) == {"trigger": "nightly", "changed": False, "was": None}


def test_closing_one_that_is_not_open_forgets_its_failures(pidispatch, database, capfd):
    fail(database)
    some_breakers(database).count()

    close("nightly")

    assert "nightly was not held back; 1 failure (infra) forgotten" in capfd.readouterr().out


def test_closing_one_that_never_ran_is_refused(pidispatch):
    with pytest.raises(NoSuchTrigger):
        close("nihgtly")
