"""What bounded a run bounds every run that is made of it: repeated, granted more, chained, tried again."""

from dataclasses import replace

import pytest

from pidispatch.domain.runs.chaintree import Harvest, TreeCaps
from pidispatch.domain.runs.outbox import Child
from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.store.runs import requeueing
from tests.flows.test_landing import grant, worked
from tests.store.builders import a_run, row

BOUNDS = (
    "SELECT cost_cap_micros, cost_cap_asked, max_turns, max_tokens, allowed_models, models_asked FROM runs"
    " WHERE public_id = :id"
)
ENDING = "SELECT state, outcome, reason, allowed_models FROM runs WHERE id = :id"
CAP, MORE = 500_000, 2_000_000


def bounds(site, public_id):
    return row(site.database, BOUNDS, id=public_id)


def a_granted_run(site, **asked):
    """It stopped at its cap and was given more."""
    old = a_run(site.database, folder="/repos/x", task=b"paint it", **asked)
    worked(site, code=2)
    return grant(site, old, MORE)


def a_child(site, run_id, name):
    """The run completes and asks for another."""
    claim, _ = site.started()
    site.go(claim)
    finishing = site.runs.finishing(site.runs.facts(run_id).claim)
    harvest = Harvest((Child("1", name, "tidy", b"more", b"{}"),), TreeCaps(None, None, None))
    assert site.endings.end(finishing, End(Outcome.COMPLETED, "completed"), BoxEnd(0), harvest=harvest)
    return bounds(site, name)


def test_a_repeat_of_a_granted_run_may_spend_what_was_granted(site):
    made = a_granted_run(site, cost_cap_micros=CAP)
    worked(site, code=1, word="infra")

    copy = requeueing.requeue(site.database, made.run_id, actor="ada@h1")

    assert bounds(site, copy.public_id)["cost_cap_micros"] == MORE


def test_a_repeat_of_a_granted_run_keeps_to_the_installation_s_cap(site):
    made = a_granted_run(site, cost_cap_micros=CAP)
    worked(site, code=1, word="infra")
    copy = requeueing.requeue(site.database, made.run_id, actor="ada@h1")
    site.policy = replace(site.policy, max_cost_micros=CAP)

    site.gate.admit()

    assert bounds(site, copy.public_id)["cost_cap_micros"] == CAP


def test_a_child_of_a_granted_run_may_spend_what_was_granted(site):
    made = a_granted_run(site, cost_cap_micros=CAP)

    assert a_child(site, made.run_id, "chain-x")["cost_cap_micros"] == MORE


def test_a_grant_of_a_grant_s_repeat_is_still_a_cap(site):
    made = a_granted_run(site)
    worked(site, code=1, word="infra")
    copy = requeueing.requeue(site.database, made.run_id, actor="ada@h1")
    worked(site, code=1, word="infra")
    again = row(site.database, "SELECT id FROM runs WHERE public_id = :id", id=copy.public_id)

    third = requeueing.requeue(site.database, again["id"], actor="ada@h1")

    assert bounds(site, third.public_id)["cost_cap_micros"] == MORE


@pytest.mark.parametrize("how", ["requeue", "child"])
def test_turns_and_tokens_bound_what_comes_of_a_run(site, how):
    run_id = a_run(site.database, folder="/repos/x", task=b"paint it", max_turns=3, max_tokens=40_000)

    if how == "child":
        copy = a_child(site, run_id, "chain-y")
    else:
        worked(site, code=1, word="infra")
        copy = bounds(site, requeueing.requeue(site.database, run_id, actor="ada@h1").public_id)

    assert (copy["max_turns"], copy["max_tokens"]) == (3, 40_000)


def test_a_model_that_was_taken_off_the_list_does_not_start_through_a_grant(site):
    site.policy = replace(site.policy, allowed_models=("scripted/happy",))
    made = a_granted_run(site)
    site.policy = replace(site.policy, allowed_models=("scripted/other",))

    site.gate.admit()

    assert row(site.database, ENDING, id=made.run_id)["reason"] == "model-not-allowed"


def test_the_list_of_the_installation_is_not_taken_for_the_run_s_own(site):
    site.policy = replace(site.policy, allowed_models=("scripted/happy", "scripted/other"))

    made = a_granted_run(site)

    assert bounds(site, made.public_id)["models_asked"] is None


def test_a_model_that_was_taken_off_the_list_does_not_start_a_second_attempt(site):
    site.policy = replace(site.policy, allowed_models=("scripted/happy",))
    run_id = tried_once(site)
    site.policy = replace(site.policy, allowed_models=("scripted/other",))

    site.gate.admit()

    assert row(site.database, ENDING, id=run_id)["reason"] == "model-not-allowed"


def test_a_second_attempt_may_call_no_model_that_its_reservations_do_not_count(site):
    site.policy = replace(site.policy, allowed_models=("scripted/happy",))
    run_id = tried_once(site)
    site.policy = replace(site.policy, allowed_models=("scripted/happy", "scripted/other"))

    site.gate.admit()

    assert row(site.database, ENDING, id=run_id)["allowed_models"] == ["scripted/happy"]


def tried_once(site):
    """The provider failed before anything was bought, so the run is queued for another attempt."""
    run_id = a_run(site.database, folder="/repos/x", task=b"paint it")
    claim, _ = site.started()
    site.go(claim)
    finishing = site.runs.finishing(site.runs.facts(run_id).claim)
    assert site.endings.again(finishing, Again("provider-failed", 0), BoxEnd(1))
    return run_id
