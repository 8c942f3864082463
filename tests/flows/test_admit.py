"""The gate: cheap checks first, each with its reason, and no slot held by any of them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.box.facts import ImageFacts
from pidispatch.domain.providers.calls import ProviderFacts
from pidispatch.domain.providers.rates import Rating
from tests.flows.site import IMAGE
from tests.store.builders import a_run, assert_ledger_is_exact, row, value


def an_end(site, run_id):
    return row(
        site.database, "SELECT state, outcome, reason, why, attempt FROM runs WHERE id = :id", id=run_id
    )


def break_image(site):
    site.images.facts_by_tag = {}


def break_arch(site):
    site.images.facts_by_tag = {IMAGE: ImageFacts("sha256:1", {}, "arm64", runs_here=False)}


def break_provider(site):
    site.doors.providers = {}


def break_credential(site):
    site.doors.providers = {
        "scripted": ProviderFacts("scripted", "openai-completions", known_to_pi=False, credential=False)
    }


def lose_price(site):
    site.policy = replace(site.policy, max_cost_micros=1_000_000)
    priced(site, Rating.UNKNOWN)


def priced(site, rating):
    site.doors.providers = {"scripted": replace(site.doors.providers["scripted"], rating=rating)}


@pytest.mark.parametrize(
    ("broken", "reason", "why"),
    [
        (break_image, "job-image-missing", None),
        (break_arch, "job-image-wrong-arch", None),
        (break_provider, "provider-unconfigured", "provider-unknown"),
        (break_credential, "provider-unconfigured", "no-credential"),
        (lose_price, "cost-cap-unenforceable", "no-price"),
        (
            lambda site: site.refused_folders.update({b"/repos/x": "local-folder-missing"}),
            "local-folder-missing",
            None,
        ),
        (
            lambda site: site.refused_folders.update({b"/repos/x": "job-user-unmappable"}),
            "job-user-unmappable",
            None,
        ),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_reserved(site, broken, reason, why):
    run_id = a_run(site.database, folder="/repos/x")
    broken(site)

    assert site.gate.admit() is None

    assert an_end(site, run_id) == {
        "state": "ended",
        "outcome": "policy",
        "reason": reason,
        "why": why,
        "attempt": 0,
    }
    assert value(site.database, "SELECT count(*) FROM reservations") == 0
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize(
    ("part", "cause"), [("images", "docker-unreachable"), ("doors", "gateway-unreachable")]
)
def test_a_part_that_does_not_answer_defers_and_loses_nothing(site, part, cause):
    run_id = a_run(site.database)
    getattr(site, part).down = True

    assert site.gate.admit() is None

    waits = row(
        site.database,
        "SELECT state, cause, not_before > now() + interval '5 s' AS later FROM runs WHERE id = :id",
        id=run_id,
    )
    assert waits == {"state": "deferred", "cause": cause, "later": True}


def busy_for(site, database, seconds):
    now = value(database, "SELECT now()")
    facts = site.doors.providers["scripted"]
    site.doors.providers["scripted"] = replace(facts, busy_until=now + timedelta(seconds=seconds))


def test_a_run_waits_while_its_provider_is_busy_and_says_so(site):
    run_id = a_run(site.database)
    busy_for(site, site.database, 60)

    assert site.gate.admit() is None

    waits = row(
        site.database,
        "SELECT state, cause, attempt, round(extract(epoch FROM not_before - now())) AS seconds FROM runs WHERE id = :id",
        id=run_id,
    )
    assert (waits["state"], waits["cause"], waits["attempt"]) == ("deferred", "provider-busy", 0)
    assert 50 <= waits["seconds"] <= 60
    assert value(site.database, "SELECT cause FROM why_waiting") == "provider-busy"
    assert value(site.database, "SELECT count(*) FROM reservations") == 0


def test_a_window_that_is_closed_for_hours_is_looked_at_again_before(site):
    a_run(site.database)
    busy_for(site, site.database, 10_000)

    assert site.gate.admit() is None

    seconds = value(site.database, "SELECT extract(epoch FROM not_before - now()) FROM runs")
    assert 290 <= seconds <= 300


def test_a_run_waits_while_a_disk_is_nearly_full_and_starts_when_there_is_room(site):
    run_id = a_run(site.database)
    site.full = "0.5 of 100.0 GiB are free where the home lies (/home)"

    assert site.gate.admit() is None

    waiting = row(
        site.database, "SELECT state, cause, attempt, admission FROM runs WHERE id = :id", id=run_id
    )
    assert (waiting["state"], waiting["cause"], waiting["attempt"]) == ("deferred", "disk-low", 0)
    assert waiting["admission"]["gates"]["disk"] == site.full
    assert value(site.database, "SELECT count(*) FROM reservations") == 0
    site.full = None
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET not_before = NULL"))
    assert site.gate.admit().run_id == run_id
    assert_ledger_is_exact(site.database)


def test_a_pause_that_is_over_holds_nobody_back(site):
    a_run(site.database)
    busy_for(site, site.database, -1)

    assert site.gate.admit() is not None


def test_a_refused_run_does_not_keep_the_next_from_starting(site):
    bad = a_run(site.database, folder="/repos/bad", priority=10)
    good = a_run(site.database, folder="/repos/good")
    site.refused_folders[b"/repos/bad"] = "local-folder-missing"

    claim = site.gate.admit()

    assert claim is not None
    assert claim.run_id == good
    assert an_end(site, bad)["reason"] == "local-folder-missing"


def test_what_a_run_asks_for_wins_over_the_defaults(site):
    run_id = a_run(site.database)

    site.gate.admit()

    assert row(
        site.database, "SELECT provider, model, image, max_turns FROM runs WHERE id = :id", id=run_id
    ) == {
        "provider": "scripted",
        "model": "happy",
        "image": IMAGE,
        "max_turns": 30,
    }


def test_without_a_cap_of_dollars_a_model_needs_no_price(site):
    a_run(site.database)
    priced(site, Rating.UNKNOWN)

    claim = site.gate.admit()

    assert claim is not None
    gates = value(site.database, "SELECT admission -> 'gates' FROM runs WHERE id = :id", id=claim.run_id)
    assert gates["provider"] == {"api": "openai-completions", "key": True, "price": "unknown"}


def test_the_price_is_asked_of_the_model_that_the_run_will_use(site):
    site.policy = replace(site.policy, max_cost_micros=1_000_000)
    run_id = a_run(site.database)
    with site.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET model = 'another'")

    site.started()

    assert value(site.database, "SELECT model FROM runs WHERE id = :id", id=run_id) == "another"
    assert site.doors.asked == [("scripted", "another")] * 2


@pytest.mark.parametrize("rating", [Rating.FREE, Rating.PLAN])
def test_a_run_that_costs_nothing_reserves_no_dollars_and_may_spend_none(site, rating):
    site.policy = replace(site.policy, max_cost_micros=1_000_000, daily_micros=1_000_000)
    a_run(site.database)
    site.started()
    priced(site, rating)
    run_id = a_run(site.database)

    site.started()

    used = "SELECT used FROM spend_windows WHERE scope = '*' AND unit = 'micros'"
    assert value(site.database, used) == 1_000_000
    assert value(site.database, "SELECT cost_cap_micros FROM runs WHERE id = :id", id=run_id) == 0
    assert value(site.database, "SELECT count(*) FROM runs WHERE state = 'running'") == 2
    assert_ledger_is_exact(site.database)


def test_without_a_window_of_dollars_a_run_that_costs_nothing_keeps_its_cap(site):
    site.policy = replace(site.policy, max_cost_micros=1_000_000)
    priced(site, Rating.PLAN)
    run_id = a_run(site.database)

    site.started()

    assert value(site.database, "SELECT cost_cap_micros FROM runs WHERE id = :id", id=run_id) == 1_000_000
