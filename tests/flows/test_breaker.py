"""At the gate: a trigger that is held back starts nothing that waits, and replicas need an image that can do them."""

import pytest
from structlog.testing import capture_logs

from pidispatch.domain.box.facts import ImageFacts
from tests.flows.site import IMAGE
from tests.store.builders import assert_ledger_is_exact, row, value
from tests.support.breaking import a_run_of, end_as, fail, open_one


def an_end(site, run_id):
    return row(site.database, "SELECT state, outcome, reason, cause FROM runs WHERE id = :id", id=run_id)


HELD_BACK = {"state": "ended", "outcome": "policy", "reason": "breaker-open", "cause": None}


def test_what_waited_when_the_breaker_opened_does_not_start(site):
    open_one(site.database)
    waiting, other = a_run_of(site.database), a_run_of(site.database, "other")

    assert site.gate.admit().run_id == other

    assert an_end(site, waiting) == HELD_BACK
    assert value(site.database, "SELECT admission->'gates' FROM runs WHERE id = :id", id=waiting) == {
        "breaker": "breaker-open"
    }
    assert_ledger_is_exact(site.database)


def test_an_ending_that_nobody_counted_is_counted_before_the_next_run_starts(site):
    fail(site.database, times=3)
    waiting = a_run_of(site.database)

    with capture_logs() as logs:
        assert site.gate.admit() is None

    assert an_end(site, waiting) == HELD_BACK
    (told,) = [line for line in logs if line["event"] == "breaker_opened"]
    assert (told["trigger"], told["reason"], told["failures"]) == ("nightly", "infra", 3)


def test_the_run_that_follows_a_failure_starts_at_once(site):
    fail(site.database, times=2)
    waiting = a_run_of(site.database)

    assert site.gate.admit().run_id == waiting


def test_a_success_that_nobody_counted_lets_the_next_run_start(site):
    open_one(site.database)
    end_as(site.database, a_run_of(site.database), "completed", "completed")
    waiting = a_run_of(site.database)

    assert site.gate.admit().run_id == waiting


def test_a_count_that_is_not_done_defers_and_never_admits(site, monkeypatch):
    monkeypatch.setattr(site.breakers, "count", lambda: None)
    fail(site.database)
    waiting = a_run_of(site.database)

    assert site.gate.admit() is None

    found = an_end(site, waiting)
    assert (found["state"], found["cause"]) == ("deferred", "breaker-counting")


def test_a_refusal_for_the_breaker_is_no_failure_itself(site):
    open_one(site.database)
    for _ in range(3):
        a_run_of(site.database)
    site.gate.admit()
    site.breakers.count()

    assert value(site.database, "SELECT failures FROM breakers") == 3


@pytest.mark.parametrize(("labels", "starts"), [("report,replicas", True), ("report", False), (None, False)])
def test_a_replica_needs_an_image_that_can_do_them(site, labels, starts):
    told = {} if labels is None else {"dev.pi-dispatch.capabilities": labels}
    site.images.facts_by_tag = {IMAGE: ImageFacts("sha256:1", told, "amd64", runs_here=True)}
    run = a_run_of(site.database, type_="label", replica=1, replicas=2)

    claim = site.gate.admit()

    assert (claim is not None) is starts
    if not starts:
        assert an_end(site, run)["reason"] == "job-image-replicas-unsupported"
        assert value(site.database, "SELECT count(*) FROM reservations") == 0


def test_a_run_without_replicas_needs_no_such_image(site):
    a_run_of(site.database)

    assert site.gate.admit() is not None
