"""Every limit through the gate on a real Postgres: what it refuses, what it defers, and what it leaves behind."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.limits.admission import Refused
from pidispatch.domain.limits.policy import ScopeCaps
from pidispatch.domain.providers.calls import CallEnd
from tests.store.builders import a_run, assert_ledger_is_exact, row, value
from tests.support.calls import cost as priced
from tests.support.calls import opened, worst

END = "SELECT outcome, reason, why FROM runs WHERE id = :id"


def windows(site):
    with site.database.transaction() as connection:
        rows = connection.execute(
            text("SELECT scope, unit, period, used FROM spend_windows ORDER BY 1, 2, 3")
        )
        return {(scope, unit, period): used for scope, unit, period, used in rows}


def finish(site, claim, *, tokens=0, cost=None):
    site.go(claim)
    if tokens:
        call = opened(site.ledger, claim.run_id, 1, worst=worst(1_000_000))
        site.ledger.settle_call(call, CallEnd(200, "stop", tokens_in=tokens), priced(cost))
    site.boxes.finish(site.container(claim.run_id), 0)
    site.finisher.finish(claim.run_id)


def test_a_scopes_cap_refuses_without_touching_the_global_counter(site):
    site.policy = replace(site.policy, by_scope={"folder:/repos/x": ScopeCaps(day=1)})
    a_run(site.database, folder="/repos/x")
    first, _ = site.started()
    finish(site, first)
    second = a_run(site.database, folder="/repos/x")

    assert site.gate.admit() is None

    assert row(site.database, END, id=second) == {
        "outcome": "policy",
        "reason": "scope-cap",
        "why": "day-cap",
    }
    assert windows(site) == {("*", "runs", "day"): 1, ("folder:/repos/x", "runs", "day"): 1}
    assert_ledger_is_exact(site.database)


def test_a_global_refusal_gives_the_scopes_place_back(site):
    site.policy = replace(site.policy, daily_cap=1, by_scope={"folder:/repos/x": ScopeCaps(day=5)})
    a_run(site.database, folder="/repos/y")
    site.go(site.started()[0])
    refused = a_run(site.database, folder="/repos/x")

    assert site.gate.admit() is None

    assert row(site.database, END, id=refused)["reason"] == "over-budget"
    assert windows(site)["*", "runs", "day"] == 1
    assert windows(site).get(("folder:/repos/x", "runs", "day"), 0) == 0


def test_a_projects_cap_holds_over_its_members(site):
    site.policy = replace(
        site.policy,
        by_scope={"project:shop": ScopeCaps(day=1)},
        projects={"folder:/repos/a": "shop", "folder:/repos/b": "shop"},
    )
    a_run(site.database, folder="/repos/a")
    claim, _ = site.started()
    site.go(claim)
    other = a_run(site.database, folder="/repos/b")

    assert site.gate.admit() is None

    assert row(site.database, END, id=other)["reason"] == "project-cap"
    assert value(site.database, "SELECT project FROM runs WHERE id = :id", id=claim.run_id) == "shop"
    assert_ledger_is_exact(site.database)


def test_a_projects_slots_defer_and_the_waiter_starts_when_one_is_free(site):
    site.policy = replace(
        site.policy,
        by_scope={"project:shop": ScopeCaps(concurrent=1)},
        projects={"folder:/repos/a": "shop", "folder:/repos/b": "shop"},
    )
    first = a_run(site.database, folder="/repos/a")
    claim, _ = site.started()
    second = a_run(site.database, folder="/repos/b")

    assert site.gate.admit() is None
    waits = row(site.database, "SELECT state, cause, blocked_by, attempt FROM runs WHERE id = :id", id=second)
    assert waits == {"state": "deferred", "cause": "scope", "blocked_by": first, "attempt": 0}
    finish(site, claim)

    again = site.gate.admit()
    assert again is not None
    assert again.run_id == second
    assert_ledger_is_exact(site.database)


def test_a_bound_that_is_raised_or_dropped_reaches_the_waiters(site):
    site.policy = replace(
        site.policy, by_scope={"project:shop": ScopeCaps(concurrent=1)},
        projects={"folder:/repos/a": "shop", "folder:/repos/b": "shop"},
    )  # fmt: skip
    a_run(site.database, folder="/repos/a")
    site.started()
    second = a_run(site.database, folder="/repos/b")
    assert site.gate.admit() is None

    site.policy = replace(site.policy, by_scope={})

    again = site.gate.admit()
    assert again is not None
    assert again.run_id == second


def test_a_lowered_concurrency_of_the_host_holds_from_the_next_start(site):
    a_run(site.database)
    site.started()
    a_run(site.database)
    site.policy = replace(site.policy, concurrency=1)

    assert site.gate.admit() is None
    assert value(site.database, "SELECT capacity FROM hosts") == 1

    site.policy = replace(site.policy, concurrency=2)
    assert site.gate.admit() is not None


def test_the_days_tokens_are_counted_after_a_run_and_refuse_the_next(site):
    site.policy = replace(site.policy, daily_token_cap=100)
    a_run(site.database)
    claim, _ = site.started()
    finish(site, claim, tokens=100)
    assert windows(site)["*", "tokens", "day"] == 100
    refused = a_run(site.database)

    assert site.gate.admit() is None

    assert row(site.database, END, id=refused)["reason"] == "daily-token-cap"
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize(
    ("tokens", "cost", "settled"),
    [(10, 300_000, 300_000), (10, None, 1_000_000), (10, 1_500_000, 1_500_000), (0, None, 0)],
    ids=["known exactly", "floor", "known and above", "no call at all"],
)
def test_dollars_reserve_the_runs_cap_and_settle_at_what_is_known(site, tokens, cost, settled):
    site.policy = replace(site.policy, max_cost_micros=1_000_000, daily_micros=2_000_000)
    run_id = a_run(site.database)
    claim, _ = site.started()
    assert windows(site)["*", "micros", "day"] == 1_000_000
    assert value(site.database, "SELECT cost_cap_micros FROM runs WHERE id = :id", id=run_id) == 1_000_000

    finish(site, claim, tokens=tokens, cost=cost)

    assert windows(site)["*", "micros", "day"] == settled
    assert_ledger_is_exact(site.database)


def test_a_dollar_window_that_is_used_up_refuses_and_equality_fits(site):
    site.policy = replace(site.policy, max_cost_micros=1_000_000, daily_micros=2_000_000)
    for _ in range(2):
        a_run(site.database)
        claim, _ = site.started()
        finish(site, claim, tokens=10, cost=1_000_000)
    third = a_run(site.database)

    assert site.gate.admit() is None

    assert row(site.database, END, id=third) == {
        "outcome": "policy",
        "reason": "dollar-cap",
        "why": "day-cap",
    }
    assert windows(site)["*", "micros", "day"] == 2_000_000
    assert windows(site)["*", "runs", "day"] == 2


def test_a_dollar_window_without_a_runs_own_cap_lets_nothing_start(site):
    site.policy = replace(site.policy, daily_micros=2_000_000)
    run_id = a_run(site.database)

    assert site.gate.admit() is None

    assert row(site.database, END, id=run_id) == {
        "outcome": "policy",
        "reason": "config-refused",
        "why": "dollar-window-without-run-cap",
    }


def test_a_run_that_never_started_gives_back_dollars_tokens_and_its_place(site):
    site.policy = replace(
        site.policy, max_cost_micros=1_000_000, daily_micros=2_000_000, daily_token_cap=5, weekly_cap=9
    )
    a_run(site.database)
    claim = site.gate.admit()
    site.boxes.down = True
    site.launcher.start(claim)

    assert set(windows(site).values()) == {0}
    assert_ledger_is_exact(site.database)


def test_a_pause_window_defers_with_its_end_and_costs_nothing(site):
    class Calendar:
        end = None

        def until(self, kind, scope, now):
            if scope != "/repos/x":
                return None
            Calendar.end = now + timedelta(hours=2)
            return Calendar.end

    site.policy = replace(site.policy, pauses=Calendar())
    paused = a_run(site.database, folder="/repos/x")
    free = a_run(site.database, folder="/repos/y")

    claim = site.gate.admit()

    assert claim.run_id == free
    waits = row(site.database, "SELECT state, cause, not_before, attempt FROM runs WHERE id = :id", id=paused)
    assert waits == {"state": "deferred", "cause": "pause-window", "not_before": Calendar.end, "attempt": 0}


def test_an_overlay_that_cannot_be_read_refuses_every_run(site):
    site.policy = Refused("settings-overlay-invalid", None)
    runs = [a_run(site.database), a_run(site.database)]

    assert site.gate.admit() is None

    for run_id in runs:
        assert row(site.database, END, id=run_id)["reason"] == "settings-overlay-invalid"
    assert windows(site) == {}


def test_after_a_hundred_refusals_a_raised_cap_admits_at_once(site):
    site.policy = replace(site.policy, daily_cap=1, concurrency=200)
    a_run(site.database)
    site.go(site.started()[0])
    for _ in range(100):
        a_run(site.database)
    while site.gate.admit() is not None or value(
        site.database, "SELECT count(*) FROM runs WHERE state = 'queued'"
    ):
        pass
    assert value(site.database, "SELECT count(*) FROM runs WHERE reason = 'over-budget'") == 100
    last = a_run(site.database)

    site.policy = replace(site.policy, daily_cap=2)

    claim = site.gate.admit()
    assert claim is not None
    assert claim.run_id == last


def test_every_gate_leaves_what_it_saw_for_an_admitted_run_too(site):
    run_id = a_run(site.database)
    site.gate.admit()

    facts = value(site.database, "SELECT admission FROM runs WHERE id = :id", id=run_id)

    assert set(facts["gates"]) == {"image", "models", "provider", "folder", "pause-windows"}
    assert facts["windows"] == [
        {
            "scope": "*", "unit": "runs", "period": "day", "used": 1, "cap": 25, "amount": 1, "state": "ok",
        }
    ]  # fmt: skip
