"""What a run has used of its caps, and which part of it calls under way only hold."""

from pidispatch.domain.providers.calls import CallEnd
from pidispatch.store.runs.calls import PostgresCallLedger
from tests.cli.lives import begin
from tests.store.builders import a_run
from tests.support.calls import cost, opened, worst


def test_what_is_held_is_told_apart_from_what_has_settled(database):
    a_run(database)
    claim = begin(database)
    ledger = PostgresCallLedger(database)
    settled = opened(ledger, claim.run_id)
    ledger.settle_call(settled, CallEnd(200, "stop", tokens_in=100, tokens_out=10), cost(500))
    ledger.open_call(claim.run_id, 1, provider="p", model="m", api="a", worst=worst(9000, 4000))

    budget = ledger.budget(claim.run_id)

    assert (budget.micros - budget.held_micros, budget.held_micros) == (500, 9000)
    assert (budget.tokens - budget.held_tokens, budget.held_tokens) == (110, 4000)
    assert (budget.turns, budget.cap_turns) == (1, 30)


def test_a_call_that_ended_without_a_turn_is_none(database):
    a_run(database)
    claim = begin(database)
    ledger = PostgresCallLedger(database)
    ledger.settle_call(
        opened(ledger, claim.run_id, 1, provider="p", model="m", api="a"), CallEnd(500, "error")
    )

    assert ledger.budget(claim.run_id).turns == 0
    assert ledger.budget(claim.run_id + 1) is None
