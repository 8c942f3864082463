"""A cancel in every state: what ends at once, what is asked, and what it gives back."""

import pytest
from sqlalchemy import text

from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Outcome, State
from pidispatch.errors import StaleEpoch
from pidispatch.store.runs import cancelling
from pidispatch.store.runs.calls import PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import (
    a_boxed_run,
    a_host,
    a_run,
    an_admitted_run,
    assert_ledger_is_exact,
    row,
    try_next,
    value,
)

ENDING = "SELECT state, outcome, reason, why, cause, not_before FROM runs WHERE id = :id"
CANCELLED = {
    "state": "ended",
    "outcome": "policy",
    "reason": "operator-cancel",
    "why": None,
    "cause": None,
    "not_before": None,
}
LEDGER = "SELECT state, held, settled FROM reservations WHERE run_id = :id"


def cancel(database, run_id):
    return cancelling.cancel(database, run_id, actor="ada@h1", reason="a slip")


def put(database, run_id, state):
    with database.transaction() as connection:
        statement = "UPDATE runs SET state = :state, cause = 'x', not_before = now() WHERE id = :id"
        connection.execute(text(statement), {"id": run_id, "state": state})


@pytest.mark.parametrize("state", ["queued", "deferred", "held"])
def test_a_run_that_waits_ends_at_once_and_its_task_has_a_last_day(database, state):
    a_host(database)
    run_id = a_run(database)
    put(database, run_id, state)

    asked = cancel(database, run_id)

    assert (asked.state, asked.host, asked.had_ended) == (State(state), None, False)
    assert row(database, ENDING, id=run_id) == CANCELLED
    assert value(database, "SELECT expires_at > now() FROM run_payloads WHERE run_id = :id", id=run_id)
    assert try_next(database) is None
    assert_ledger_is_exact(database)
    written = row(database, "SELECT actor, action, subject, detail FROM audit_log")
    assert written == {
        "actor": "ada@h1",
        "action": "cancel",
        "subject": asked.public_id,
        "detail": {"state": state, "reason": "a slip"},
    }


def test_a_run_that_may_have_spent_and_waits_again_is_settled(database):
    a_host(database)
    claim = a_boxed_run(database)
    runs = Runs(database)
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, claim.attempt, "c0ffee" * 2)
    finishing = runs.finishing(runs.facts(claim.run_id).claim)
    assert Endings(database).again(finishing, Again("provider-failed", 60), BoxEnd(1))

    cancel(database, claim.run_id)

    assert row(database, ENDING, id=claim.run_id) == CANCELLED
    assert row(database, LEDGER, id=claim.run_id) == {"state": "settled", "held": 1, "settled": 1}
    assert_ledger_is_exact(database)


def test_a_run_that_holds_a_slot_is_asked_and_keeps_it(database):
    a_host(database)
    claim = a_boxed_run(database)

    asked = cancel(database, claim.run_id)

    assert (asked.state, asked.host) == (State.RUNNING, "h1")
    kept = row(database, "SELECT state, stop_reason FROM runs WHERE id = :id", id=claim.run_id)
    assert kept == {"state": "running", "stop_reason": "operator-cancel"}
    assert row(database, LEDGER, id=claim.run_id)["state"] == "held"
    assert_ledger_is_exact(database)


def test_no_other_ending_is_written_once_a_cancel_was_acknowledged(database):
    """The box had ended by itself, and its finisher was about to write that down."""
    a_host(database)
    claim = a_boxed_run(database)
    finishing = Runs(database).finishing(claim)

    cancel(database, claim.run_id)

    with pytest.raises(StaleEpoch):
        Endings(database).end(finishing, End(Outcome.COMPLETED, "completed"), BoxEnd(0))
    assert Runs(database).facts(claim.run_id).stop_reason == "operator-cancel"


def test_a_preparer_cannot_put_a_cancelled_run_back_into_the_queue(database):
    a_host(database)
    job = Runs(database).preparing(an_admitted_run(database))

    cancel(database, job.claim.run_id)

    with pytest.raises(StaleEpoch):
        Runs(database).finishing(job.claim)


def test_an_operators_wish_goes_before_a_shutdown_but_not_the_reverse(database):
    a_host(database)
    claim = a_boxed_run(database)
    runs = Runs(database)
    assert runs.request_stop(claim.run_id, reason="shutdown")

    cancel(database, claim.run_id)

    assert runs.facts(claim.run_id).stop_reason == "operator-cancel"
    assert not runs.request_stop(claim.run_id, reason="shutdown")
    assert not runs.request_stop(claim.run_id, reason="operator-cancel")


def test_a_run_that_has_ended_stays_as_it_was_and_nothing_is_written_down(database):
    a_host(database)
    run_id = a_run(database)
    cancel(database, run_id)

    assert cancel(database, run_id).had_ended
    assert value(database, "SELECT count(*) FROM audit_log") == 1


def test_those_that_hold_a_slot_come_first_and_none_that_waits_starts_meanwhile(database):
    a_host(database)
    running = a_boxed_run(database).run_id
    waiting = [a_run(database), a_run(database)]
    cancel(database, a_run(database))

    assert cancelling.live_runs(database) == [running, *waiting]
    assert try_next(database) is None
