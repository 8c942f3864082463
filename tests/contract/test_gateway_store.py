"""What the gateway asks of the store: the same suite on the fake and on Postgres, or the fake lies."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from pidispatch.ports import CallEnd, CallOpened, CallRefused, Ticket
from pidispatch.store.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs import PostgresRuns
from tests.gateway.fakes import FakeLedger, FakeTickets, Switch
from tests.store.builders import HOST, a_boxed_run, a_host, row

CONTAINER = "c0ffee" * 10
CLOSED = CallRefused("closed")
CALL = {"provider": "scripted", "model": "happy", "api": "openai-completions"}


@dataclass
class Side:
    tickets: Any
    ledger: Any
    run_id: int
    stop: Any
    now: Any
    states: Any


@pytest.fixture(params=["fake", "postgres"])
def side(request):
    return _fake() if request.param == "fake" else _postgres(request.getfixturevalue("database"))


def _fake() -> Side:
    from datetime import UTC, datetime

    tickets = FakeTickets(Switch())
    ledger = FakeLedger(tickets.switch, tickets)
    tickets.add(Ticket(7, "local-7", 1, "scripted"), CONTAINER)

    def stop():
        tickets.runs[7].live = False

    return Side(
        tickets, ledger, 7, stop, lambda: datetime.now(UTC), lambda: [call.state for call in ledger.calls]
    )


def _postgres(database) -> Side:
    a_host(database)
    claim = a_boxed_run(database, container=CONTAINER)

    def states():
        found = row(
            database, "SELECT coalesce(array_agg(state ORDER BY id), '{}') AS states FROM provider_calls"
        )
        return found["states"]

    return Side(
        PostgresTickets(database, timeout=60),
        PostgresCallLedger(database),
        claim.run_id,
        lambda: PostgresRuns(database).request_stop(claim.run_id, reason="operator-cancel"),
        database.now,
        states,
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
