"""The end of an attempt: settled or given back, once, and only when every call is closed."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.providers.calls import CallEnd, CallRefused
from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Outcome, Result
from pidispatch.errors import StaleEpoch
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import (
    HOST,
    a_boxed_run,
    a_host,
    an_admitted_run,
    assert_ledger_is_exact,
    row,
    try_next,
    value,
)
from tests.support.calls import opened

DONE = End(Outcome.COMPLETED, "completed", result=Result.DONE_UNVERIFIED)
NEVER = Again("never-started", 0)
CONTAINER = "c0ffee" * 10


def a_run_with_calls(database, *ends):
    a_host(database)
    claim = a_boxed_run(database)
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, 1, CONTAINER[:12])
    claim = Runs(database).facts(claim.run_id).claim
    ledger = PostgresCallLedger(database)
    for end in ends:
        call = opened(ledger, claim.run_id, 1, provider="scripted", model="happy", api="openai-completions")
        ledger.settle_call(call, end)
    return claim


def test_a_completed_run_sums_its_calls_and_keeps_its_reservation(database):
    claim = a_run_with_calls(
        database,
        CallEnd(200, "tool_use", tokens_in=100, tokens_out=10, cache_read=5),
        CallEnd(500, None),
        CallEnd(200, "stop", tokens_in=200, tokens_out=20, cache_write=7),
    )
    claim = Runs(database).finishing(claim)

    assert Endings(database).end(claim, DONE, BoxEnd(exit_code=0))

    history = row(
        database,
        "SELECT outcome, result, turns, calls, tokens_in, tokens_out, tokens_total, exit_code, budget_reserved"
        " FROM run_history",
    )
    assert history == {
        "outcome": "completed",
        "result": "done-unverified",
        "turns": 2,
        "calls": 3,
        "tokens_in": 300,
        "tokens_out": 30,
        "tokens_total": 342,
        "exit_code": 0,
        "budget_reserved": True,
    }
    assert row(database, "SELECT calls, failed_calls, tokens_in FROM run_usage") == {
        "calls": 3,
        "failed_calls": 1,
        "tokens_in": 300,
    }
    assert row(database, "SELECT used, held, settled FROM spend_today") == {
        "used": 1,
        "held": 0,
        "settled": 1,
    }
    assert value(database, "SELECT expires_at > now() + interval '6 days' FROM run_payloads") is True
    assert_ledger_is_exact(database)


def test_a_run_does_not_end_while_a_call_is_open(database):
    claim = a_run_with_calls(database)
    ledger = PostgresCallLedger(database)
    call = opened(ledger, claim.run_id, 1, provider="p", model="m", api="a")
    claim = Runs(database).finishing(claim)

    assert Endings(database).end(claim, DONE, BoxEnd(exit_code=0)) is False
    assert value(database, "SELECT state FROM runs") == "finishing"

    ledger.settle_call(call, CallEnd(200, "stop"))
    assert Endings(database).end(claim, DONE, BoxEnd(exit_code=0)) is True


def test_a_run_that_called_no_model_has_no_calls(database):
    a_host(database)
    claim = Runs(database).finishing(an_admitted_run(database))

    Endings(database).end(claim, End(Outcome.FAILED, "container-never-started"), BoxEnd())

    assert value(database, "SELECT calls FROM runs") == 0


def test_an_ended_run_cannot_end_again_nor_change(database):
    claim = a_run_with_calls(database)
    claim = Runs(database).finishing(claim)
    endings = Endings(database)
    endings.end(claim, DONE, BoxEnd(exit_code=0))

    with pytest.raises(StaleEpoch):
        endings.end(claim, DONE, BoxEnd(exit_code=1))
    with pytest.raises(IntegrityError, match="has ended as completed"), database.transaction() as connection:
        connection.execute(text("UPDATE runs SET exit_code = 7"))
    assert_ledger_is_exact(database)


def test_a_run_that_never_started_gives_everything_back_and_can_start_again(database):
    a_host(database)
    claim = a_boxed_run(database)
    claim = Runs(database).finishing(claim)

    assert Endings(database).again(claim, NEVER, BoxEnd())

    assert value(database, "SELECT used FROM spend_windows") == 0
    assert value(database, "SELECT state FROM reservations") == "released"
    assert_ledger_is_exact(database)
    found = try_next(database)
    assert found is not None
    assert isinstance(found[1], Admitted)
    assert found[1].claim.attempt == 2
    assert value(database, "SELECT used FROM spend_windows") == 1
    assert_ledger_is_exact(database)


def test_a_second_attempt_after_a_provider_failure_is_not_paid_for_again(database):
    claim = a_run_with_calls(database, CallEnd(500, None))
    claim = Runs(database).finishing(claim)
    assert Endings(database).again(claim, Again("provider-failed", 0), BoxEnd(exit_code=1))
    assert value(database, "SELECT used FROM spend_windows") == 1

    found = try_next(database)

    assert found is not None
    assert isinstance(found[1], Admitted)
    assert value(database, "SELECT used FROM spend_windows") == 1
    assert value(database, "SELECT count(*) FROM reservations") == 1
    assert_ledger_is_exact(database)


def test_a_stale_epoch_writes_nothing(database):
    a_host(database)
    claim = a_boxed_run(database)
    runs = Runs(database)
    runs.finishing(claim)

    for write in (
        lambda: runs.finishing(claim),
        lambda: runs.stopping(claim, reason="deadline"),
        lambda: runs.boxed(claim, container_id="x", name="y"),
        lambda: Endings(database).end(claim, DONE, BoxEnd()),
    ):
        with pytest.raises(StaleEpoch):
            write()
    assert value(database, "SELECT state FROM runs") == "finishing"


def test_the_go_is_given_once_and_only_to_the_recorded_container(database):
    a_host(database)
    claim = a_boxed_run(database)
    tickets = PostgresTickets(database, timeout=60)

    assert tickets.give_go(claim.run_id, 1, "deadbeef" * 3) is False
    assert tickets.give_go(claim.run_id, 1, CONTAINER[:11]) is False
    assert tickets.give_go(claim.run_id, 2, CONTAINER[:12]) is False
    assert tickets.give_go(claim.run_id, 1, CONTAINER[:12]) is True
    assert tickets.give_go(claim.run_id, 1, CONTAINER[:12]) is False
    assert value(database, "SELECT deadline_at - started_at < interval '61 s' FROM runs") is True


def test_no_call_is_opened_before_the_go_nor_after_a_stop_was_asked(database):
    a_host(database)
    claim = a_boxed_run(database)
    ledger = PostgresCallLedger(database)
    assert ledger.open_call(claim.run_id, 1, provider="p", model="m", api="a") == CallRefused("closed")
    PostgresTickets(database, timeout=60).give_go(claim.run_id, 1, CONTAINER)
    assert opened(ledger, claim.run_id)

    assert Runs(database).request_stop(claim.run_id, reason="operator-cancel") is True

    assert Runs(database).request_stop(claim.run_id, reason="deadline") is False
    assert ledger.open_call(claim.run_id, 1, provider="p", model="m", api="a") == CallRefused("closed")


def test_a_verified_report_is_never_replaced(database):
    a_host(database)
    claim = a_boxed_run(database)
    tickets = PostgresTickets(database, timeout=60)
    tickets.keep_report(claim.run_id, 1, {"reason": "forged"}, verified=False)
    tickets.keep_report(claim.run_id, 1, {"reason": "true"}, verified=True)
    tickets.keep_report(claim.run_id, 1, {"reason": "late"}, verified=False)

    facts = Runs(database).facts(claim.run_id)
    assert (facts.report_reason, facts.report_verified) == ("true", True)


def test_calls_of_an_earlier_gateway_are_assumed(database):
    claim = a_run_with_calls(database)
    ledger = PostgresCallLedger(database)
    ledger.open_call(claim.run_id, 1, provider="p", model="m", api="a")

    assert ledger.assume_open(HOST, database.now()) == 1
    assert row(database, "SELECT state, measured FROM provider_calls") == {
        "state": "assumed",
        "measured": False,
    }
