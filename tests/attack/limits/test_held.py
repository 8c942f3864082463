"""What others only hold of a cap makes a run wait. It refuses nobody: what is held may yet be given back."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.flows.test_limits import END, finish, windows
from tests.store.builders import a_run, assert_ledger_is_exact, row, value

DOLLARS = {"max_cost_micros": 2_000_000, "daily_micros": 5_000_000}
WAITS = "SELECT state, cause, blocked_by, attempt FROM runs WHERE id = :id"


def a_started_run(site):
    run_id = a_run(site.database)
    claim, _ = site.started()
    return run_id, claim


def a_working_run(site):
    run_id, claim = a_started_run(site)
    site.go(claim)
    return run_id, claim


def due_in_time(site):
    """The minute has passed after which a waiter is looked at again in any case."""
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET not_before = now() WHERE cause = 'cap-held'"))


def cheap(site, claim):
    """It ends, having cost a third of a cent of its two dollars."""
    finish(site, claim, tokens=10, cost=3_000)


def test_four_cheap_runs_all_get_their_turn_under_five_dollars_a_day(site):
    site.policy = replace(site.policy, concurrency=10, **DOLLARS)
    first, second = a_started_run(site), a_started_run(site)
    third, fourth = a_run(site.database), a_run(site.database)

    assert site.gate.admit() is None
    held_back = [row(site.database, WAITS, id=each) for each in (third, fourth)]
    cheap(site, first[1])
    went = site.gate.admit()
    site.gate.admit()

    waits = {"state": "deferred", "cause": "cap-held", "blocked_by": first[0], "attempt": 0}
    assert held_back == [waits, waits]
    assert went.run_id == third
    assert row(site.database, WAITS, id=fourth)["state"] == "deferred"
    cheap(site, second[1])
    assert site.gate.admit().run_id == fourth
    assert_ledger_is_exact(site.database)


def test_what_was_spent_in_the_end_refuses(site):
    site.policy = replace(site.policy, concurrency=10, **DOLLARS)
    _, first = a_started_run(site)
    _, second = a_started_run(site)
    third = a_run(site.database)
    assert site.gate.admit() is None

    finish(site, first, tokens=10, cost=1_900_000)
    assert site.gate.admit() is None
    assert row(site.database, WAITS, id=third)["cause"] == "cap-held"
    finish(site, second, tokens=10, cost=1_900_000)

    assert site.gate.admit() is None
    assert row(site.database, END, id=third)["reason"] == "dollar-cap"


def test_what_could_never_fit_is_refused_at_once(site):
    site.policy = replace(site.policy, concurrency=10, max_cost_micros=2_000_000, daily_micros=1_000_000)
    refused = a_run(site.database)

    assert site.gate.admit() is None

    assert row(site.database, END, id=refused)["reason"] == "dollar-cap"


def test_a_full_window_beside_a_held_one_refuses(site):
    site.policy = replace(site.policy, concurrency=10, daily_cap=2, **DOLLARS)
    a_working_run(site)
    a_working_run(site)
    refused = a_run(site.database)

    assert site.gate.admit() is None

    assert row(site.database, END, id=refused)["reason"] == "over-budget"


@pytest.mark.parametrize("pct", [None, 50])
def test_a_place_among_the_day_s_runs_is_only_held_until_the_go(site, pct):
    site.policy = replace(site.policy, concurrency=10, daily_cap=1 if pct is None else 2, soft_hold_pct=pct)
    a_run(site.database)
    claim, _ = site.started()
    waiter = a_run(site.database)

    assert site.gate.admit() is None
    assert row(site.database, WAITS, id=waiter)["cause"] == "cap-held"
    site.go(claim)
    assert site.gate.admit() is None

    assert row(site.database, END, id=waiter)["reason"] == ("over-budget" if pct is None else "soft-hold")


def test_the_place_of_a_run_that_never_started_goes_to_who_waited_for_it(site):
    site.policy = replace(site.policy, concurrency=10, daily_cap=1)
    a_run(site.database)
    claim, container = site.started()
    waiter = a_run(site.database)
    assert site.gate.admit() is None

    site.boxes.finish(container, 3)  # its entrypoint is broken
    site.finisher.finish(claim.run_id)

    assert site.gate.admit().run_id == waiter
    assert windows(site)["*", "runs", "day"] == 1
    assert_ledger_is_exact(site.database)


def test_a_waiter_that_nothing_woke_is_looked_at_again(site):
    site.policy = replace(site.policy, concurrency=10, **DOLLARS)
    a_working_run(site)
    a_working_run(site)
    waiter = a_run(site.database)
    assert site.gate.admit() is None

    site.policy = replace(site.policy, daily_micros=6_000_000)  # no window's use has changed by that
    assert site.gate.admit() is None
    due_in_time(site)

    assert site.gate.admit().run_id == waiter


def test_the_record_says_what_is_held(site):
    site.policy = replace(site.policy, concurrency=10, **DOLLARS)
    a_working_run(site)
    a_working_run(site)
    waiter = a_run(site.database)
    site.gate.admit()

    facts = value(site.database, "SELECT admission FROM runs WHERE id = :id", id=waiter)

    dollars = next(each for each in facts["windows"] if each["unit"] == "micros")
    assert (dollars["used"], dollars["held"], dollars["state"]) == (6_000_000, 4_000_000, "over")
    assert facts["answer"]["cause"] == "cap-held"
