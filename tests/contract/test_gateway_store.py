"""What the gateway asks of the store: the same suite on the fake and on Postgres, or the fake lies."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from pidispatch.domain.providers.calls import (
    NOTHING_KNOWN,
    Budget,
    CallEnd,
    CallOpened,
    CallRefused,
    Ticket,
    Worst,
)
from pidispatch.domain.providers.rates import CostClass
from pidispatch.store.admission import pauses
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresStops, PostgresTickets
from pidispatch.store.runs.transitions import Runs
from tests.gateway.fakes import FakeCaps, FakeLedger, FakeStops, FakeTickets, Switch
from tests.store.builders import HOST, a_boxed_run, a_host, row, value
from tests.support.calls import cost, worst

CONTAINER = "c0ffee" * 10
CLOSED = CallRefused("closed")
CALL = {"provider": "scripted", "model": "happy", "api": "openai-completions"}


@dataclass
class Side:
    """One of the two, and what a test does to it or reads from it by other ways than the ports."""

    tickets: Any
    ledger: Any
    stops: Any
    run_id: int
    stop: Any
    now: Any
    states: Any
    held: Any  # (held_micros, held_tokens, lowered_by) of each call
    caps: Any
    stop_calls: Any
    refusals: Any  # (the last reason, how many)
    adjusted: Any


@pytest.fixture(params=["fake", "postgres"])
def side(request):
    return _fake() if request.param == "fake" else _postgres(request.getfixturevalue("database"))


def _fake() -> Side:
    from datetime import UTC, datetime

    tickets = FakeTickets(Switch())
    ledger = FakeLedger(tickets.switch, tickets)
    tickets.add(Ticket(7, "local-7", 1, "scripted"), CONTAINER)
    run = tickets.runs[7]

    def stop():
        run.live = False

    def stop_calls(*, stopped=True):
        run.stopped = stopped

    return Side(
        tickets,
        ledger,
        FakeStops(tickets),
        run_id=7,
        stop=stop,
        now=lambda: datetime.now(UTC),
        states=lambda: [call.state for call in ledger.calls],
        held=lambda: [(call.held_micros, call.held_tokens, call.lowered_by) for call in ledger.calls],
        caps=lambda **caps: setattr(run, "caps", FakeCaps(**caps)),
        stop_calls=stop_calls,
        refusals=lambda: (run.refused[-1] if run.refused else None, len(run.refused)),
        adjusted=lambda: len(ledger.adjusted),
    )


def _postgres(database) -> Side:
    a_host(database)
    claim = a_boxed_run(database, container=CONTAINER)

    def rows(columns):
        with database.transaction() as connection:
            return [
                tuple(row)
                for row in connection.execute(text(f"SELECT {columns} FROM provider_calls ORDER BY id"))
            ]

    def caps(allowed_models=None, max_turns=None, max_tokens=None, cost_cap_micros=None):
        change = (
            "UPDATE runs SET allowed_models = :models, max_turns = :turns, max_tokens = :tokens,"
            " cost_cap_micros = :micros"
        )
        asked = {
            "models": allowed_models,
            "turns": max_turns,
            "tokens": max_tokens,
            "micros": cost_cap_micros,
        }
        with database.transaction() as connection:
            connection.execute(text(change), asked)

    def stop_calls(*, stopped=True):
        if stopped:
            pauses.pause(database, "*", actor="me", stops_calls=True)
        else:
            pauses.resume(database, "*", actor="me")

    def refusals():
        return tuple(row(database, "SELECT refused_reason, refusals FROM run_attempts").values())

    return Side(
        PostgresTickets(database, timeout=60),
        PostgresCallLedger(database),
        PostgresStops(database),
        run_id=claim.run_id,
        stop=lambda: Runs(database).request_stop(claim.run_id, reason="operator-cancel"),
        now=database.now,
        states=lambda: [state for (state,) in rows("state")],
        held=lambda: rows("held_micros, held_tokens, lowered_by"),
        caps=caps,
        stop_calls=stop_calls,
        refusals=refusals,
        adjusted=lambda: value(database, "SELECT count(*) FROM spend_adjustments"),
    )


def go(side) -> bool:
    return side.tickets.give_go(side.run_id, 1, CONTAINER[:12])


def test_a_run_that_holds_a_slot_has_a_ticket(side):
    ticket = side.tickets.ticket(side.run_id)

    assert (ticket.run_id, ticket.attempt, ticket.provider) == (side.run_id, 1, "scripted")
    assert side.tickets.occupying(HOST) == [ticket]
    assert side.tickets.ticket(side.run_id + 1) is None


def test_the_go_is_true_exactly_once(side):
    assert [go(side), go(side)] == [True, False]


@pytest.mark.parametrize(
    ("attempt", "container"), [(2, CONTAINER), (1, "deadbeef" * 8), (1, CONTAINER[:11]), (1, "")]
)
def test_the_go_is_for_the_recorded_attempt_and_container_only(side, attempt, container):
    assert side.tickets.give_go(side.run_id, attempt, container) is False
    assert go(side) is True


def test_no_call_is_opened_without_the_go_for_another_attempt_or_after_a_stop(side):
    assert side.ledger.open_call(side.run_id, 1, **CALL) == CLOSED
    go(side)
    assert side.ledger.open_call(side.run_id, 2, **CALL) == CLOSED
    assert side.ledger.open_call(side.run_id + 1, 1, **CALL) == CLOSED
    assert isinstance(side.ledger.open_call(side.run_id, 1, **CALL), CallOpened)

    side.stop()

    assert side.ledger.open_call(side.run_id, 1, **CALL) == CLOSED


def test_a_call_is_settled_once(side):
    go(side)
    call = side.ledger.open_call(side.run_id, 1, **CALL).call_id

    side.ledger.settle_call(call, CallEnd(200, "stop", tokens_in=5))
    side.ledger.settle_call(call, CallEnd(500, None, tokens_in=99))

    assert side.states() == ["settled"]
    assert side.ledger.assume_open(HOST, side.now() + timedelta(days=1)) == 0


def test_only_open_calls_of_before_are_assumed(side):
    go(side)
    settled = side.ledger.open_call(side.run_id, 1, **CALL).call_id
    side.ledger.settle_call(settled, CallEnd(200, "stop"))
    side.ledger.open_call(side.run_id, 1, **CALL)
    between = side.now()
    side.ledger.open_call(side.run_id, 1, **CALL)

    assert side.ledger.assume_open(HOST, between) == 1
    assert side.states() == ["settled", "assumed", "held"]


def test_a_stopped_run_gets_no_go(side):
    side.stop()

    assert go(side) is False


# What a call holds, and when it is refused


def ask(side, most=NOTHING_KNOWN, model="happy"):
    return side.ledger.open_call(side.run_id, 1, **(CALL | {"model": model}), worst=most)


def test_without_caps_a_call_holds_its_worst_and_may_use_anything(side):
    go(side)
    side.caps()

    unknown, known = ask(side), ask(side, worst(70, 9))

    assert (unknown.micros, unknown.tokens, known.micros, known.tokens) == (None, None, None, None)
    assert side.held() == [(None, 0, None), (70, 9, None)]
    assert side.refusals() == (None, 0)


def test_calls_hold_up_to_the_last_cent_and_not_one_more(side):
    go(side)
    side.caps(cost_cap_micros=100)

    assert ask(side, worst(60)).micros == 60
    assert ask(side, worst(41)) == CallRefused("cost-cap")
    assert ask(side, worst(40)).micros == 40
    assert ask(side, worst(1)) == CallRefused("cost-cap")
    assert ask(side, worst(0)).micros == 0
    assert side.refusals() == ("cost-cap", 2)


def test_a_call_that_can_be_made_shorter_holds_all_that_is_left(side):
    go(side)
    side.caps(cost_cap_micros=100, max_tokens=1_000)
    ask(side, worst(60, 900))

    lowered = ask(side, worst(90, 500, least=10, least_tokens=50))

    assert (lowered.micros, lowered.tokens) == (40, 100)
    assert side.held()[1] == (40, 100, "cost-cap")


def test_of_two_caps_the_one_that_made_it_shorter_is_noted(side):
    go(side)
    side.caps(cost_cap_micros=100, max_tokens=1_000)

    opened = ask(side, worst(90, 1_500, least=10, least_tokens=50))

    assert (opened.micros, opened.tokens) == (90, 1_000)
    assert side.held() == [(90, 1_000, "token-cap")]


def test_not_even_the_shortest_answer_fits(side):
    go(side)
    side.caps(cost_cap_micros=100, max_tokens=1_000)
    ask(side, worst(60, 100))

    assert ask(side, worst(90, 100, least=41, least_tokens=1)) == CallRefused("cost-cap")
    assert ask(side, worst(10, 5_000, least=1, least_tokens=901)) == CallRefused("token-cap")
    assert side.refusals() == ("token-cap", 2)


def test_what_a_settled_call_did_not_use_is_free_again_and_what_it_used_is_not(side):
    go(side)
    side.caps(cost_cap_micros=100, max_tokens=1_000)
    first = ask(side, worst(100, 1_000))

    side.ledger.settle_call(
        first.call_id, CallEnd(200, "stop", tokens_in=3, tokens_out=4, cache_read=2, cache_write=1), cost(30)
    )

    assert side.ledger.budget(side.run_id) == Budget(30, 100, 10, 1_000, 1, None)
    assert ask(side, worst(71, 10)) == CallRefused("cost-cap")
    assert ask(side, worst(70, 991)) == CallRefused("token-cap")
    assert ask(side, worst(70, 990)).micros == 70
    assert side.ledger.budget(side.run_id) == Budget(
        100, 100, 1_000, 1_000, 1, None, held_micros=70, held_tokens=990
    )


def test_a_call_that_cost_more_than_it_held_leaves_less_and_never_less_than_nothing(side):
    go(side)
    side.caps(cost_cap_micros=100)
    side.ledger.settle_call(ask(side, worst(90)).call_id, CallEnd(200, "stop"), cost(130))

    assert ask(side, worst(1)) == CallRefused("cost-cap")
    assert ask(side, worst(0)).micros == 0


def test_a_cost_that_nobody_knows_counts_what_was_held(side):
    go(side)
    side.caps(cost_cap_micros=100)
    side.ledger.settle_call(ask(side, worst(90)).call_id, CallEnd(200, "stop"), None)

    assert side.ledger.budget(side.run_id).micros == 90


def test_an_estimate_counts_no_more_than_was_held(side):
    go(side)
    side.caps(cost_cap_micros=100)
    estimate = cost(500, CostClass.ESTIMATE)
    side.ledger.settle_call(
        ask(side, worst(90)).call_id, CallEnd(200, "stop", tokens_out=1, measured=False), estimate
    )

    assert side.ledger.budget(side.run_id).micros == 90


def test_a_dollar_cap_and_no_price_cannot_be_enforced(side):
    go(side)
    side.caps(cost_cap_micros=100)

    assert ask(side) == CallRefused("cost-cap-unenforceable")
    assert side.refusals() == ("cost-cap-unenforceable", 1)


def test_turns_are_the_calls_that_were_answered_and_those_that_may_yet_be(side):
    go(side)
    side.caps(max_turns=3)
    for status, stop in ((200, "stop"), (500, "error"), (200, "tool_use"), (0, "error")):
        side.ledger.settle_call(ask(side).call_id, CallEnd(status, stop))
    last = ask(side)

    assert ask(side) == CallRefused("turn-cap")
    side.ledger.settle_call(last.call_id, CallEnd(200, "length"))
    assert ask(side) == CallRefused("turn-cap")
    assert side.ledger.budget(side.run_id).turns == 3
    assert side.refusals() == ("turn-cap", 2)


@pytest.mark.parametrize(
    "end",
    [
        CallEnd(200, "aborted", tokens_in=1, measured=False),
        CallEnd(0, "error", tokens_in=1, measured=False),
        CallEnd(200, "error", tokens_in=1, tokens_out=1),
    ],
)
def test_a_call_that_may_have_been_answered_is_a_turn_however_it_ended(side, end):
    go(side)
    side.caps(max_turns=3)

    for _ in range(3):
        side.ledger.settle_call(ask(side).call_id, end)

    assert ask(side) == CallRefused("turn-cap")
    assert side.ledger.budget(side.run_id).turns == 3


def test_an_end_that_was_not_measured_is_assumed_at_its_most_and_never_above_the_hold(side):
    go(side)
    side.caps(cost_cap_micros=100, max_tokens=1_000)
    at_most = CallEnd(200, "aborted", tokens_in=300, tokens_out=50, measured=False)

    for micros in (30, 500):
        call = ask(side, worst(50, 400)).call_id
        side.ledger.settle_call(call, at_most, cost(micros, CostClass.ASSUMED))

    assert side.states() == ["assumed", "assumed"]
    assert side.ledger.budget(side.run_id) == Budget(80, 100, 700, 1_000, 2, None)
    assert side.ledger.assume_open(HOST, side.now() + timedelta(days=1)) == 0


def test_an_assumed_end_is_settled_once(side):
    go(side)
    call = ask(side, worst(50, 400)).call_id

    for micros in (30, 10):
        side.ledger.settle_call(call, CallEnd(200, "aborted", tokens_in=9, measured=False), cost(micros))

    assert side.ledger.budget(side.run_id).micros == 30
    assert side.adjusted() == 0


def test_only_the_models_on_the_list_are_called_however_they_are_written(side):
    go(side)
    side.caps(allowed_models=["Scripted/Happy", "other/sad"])

    assert isinstance(ask(side, model="happy"), CallOpened)
    assert isinstance(ask(side, model="HAPPY"), CallOpened)
    assert ask(side, model="sad") == CallRefused("model-not-allowed")
    side.caps(allowed_models=[])
    assert ask(side) == CallRefused("model-not-allowed")


def test_whoever_may_answer_in_place_of_the_model_must_be_on_the_list_too(side):
    go(side)
    side.caps(allowed_models=["scripted/happy", "scripted/glad"])

    assert isinstance(ask(side, Worst(others=("glad", "HAPPY"))), CallOpened)
    assert ask(side, Worst(others=("glad", "sad"))) == CallRefused("model-not-allowed")
    assert ask(side, Worst(others=None)) == CallRefused("model-policy-unenforceable")
    side.caps()
    assert isinstance(ask(side, Worst(others=None)), CallOpened)


def test_an_operator_stops_all_calls_and_lets_them_go_on(side):
    go(side)
    side.stop_calls()

    assert ask(side) == CallRefused("stopped")
    assert list(side.stops.stopped(HOST)) == [side.run_id]
    side.stop_calls(stopped=False)
    assert isinstance(ask(side), CallOpened)
    assert list(side.stops.stopped(HOST)) == []
    assert side.refusals() == ("stopped", 1)


def test_a_run_that_is_closed_is_refused_as_that_and_nothing_is_noted(side):
    side.stop_calls()

    assert ask(side) == CLOSED
    assert side.refusals() == (None, 0)


def test_an_assumed_call_counts_what_it_held(side):
    go(side)
    side.caps(cost_cap_micros=100, max_tokens=1_000)
    ask(side, worst(60, 700))

    side.ledger.assume_open(HOST, side.now() + timedelta(days=1))

    assert side.ledger.budget(side.run_id) == Budget(60, 100, 700, 1_000, 1, None)
    assert ask(side, worst(41)) == CallRefused("cost-cap")
    assert ask(side, worst(1, 301)) == CallRefused("token-cap")


def test_a_late_figure_takes_the_place_of_what_was_assumed_once(side):
    go(side)
    side.caps(cost_cap_micros=100, max_tokens=1_000)
    call = ask(side, worst(60, 700)).call_id
    side.ledger.assume_open(HOST, side.now() + timedelta(days=1))

    for _ in range(2):
        side.ledger.settle_call(call, CallEnd(200, "stop", tokens_in=5), cost(20))

    assert side.ledger.budget(side.run_id) == Budget(20, 100, 5, 1_000, 1, None)
    assert (side.states(), side.adjusted()) == (["settled"], 1)


def test_a_budget_is_of_a_run_that_exists(side):
    assert side.ledger.budget(side.run_id + 1) is None
