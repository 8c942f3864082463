"""What a refusal of the gateway tells whoever judges the attempt."""

from datetime import timedelta

import pytest

from pidispatch.domain.providers.calls import CallEnd, CallRefused
from pidispatch.store.admission import pauses
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import HOST, a_boxed_run, a_host, value
from tests.support.calls import cost, opened, worst

CONTAINER = "c0ffee" * 10


class Attempt:
    """A run at work under a cap of 100 micro-dollars and 1,000 tokens."""

    def __init__(self, database):
        self.database, self.ledger = database, PostgresCallLedger(database)
        a_host(database)
        self.run_id = a_boxed_run(database, container=CONTAINER).run_id
        assert PostgresTickets(database, timeout=60).give_go(self.run_id, 1, CONTAINER[:12])
        with database.transaction() as connection:
            connection.exec_driver_sql("UPDATE runs SET cost_cap_micros = 100, max_tokens = 1000")

    def ask(self, most):
        return self.ledger.open_call(self.run_id, 1, provider="p", model="m", api="a", worst=most)

    def call(self, most, stop="stop", *, micros=0):
        call_id = opened(self.ledger, self.run_id, worst=most)
        self.ledger.settle_call(call_id, CallEnd(200, stop), cost(micros))

    def refused(self):
        return Runs(self.database).facts(self.run_id).refused


@pytest.fixture
def attempt(database):
    return Attempt(database)


def test_an_attempt_that_was_never_refused_has_no_refusal(attempt):
    assert attempt.refused() is None
    attempt.call(worst(10))
    assert attempt.refused() is None


def test_the_last_refusal_counts_while_no_later_call_was_opened(attempt):
    assert attempt.ask(worst(10, 2_000)) == CallRefused("token-cap")
    assert attempt.ask(worst(101)) == CallRefused("cost-cap")
    assert attempt.refused() == "cost-cap"

    attempt.call(worst(10))

    assert attempt.refused() is None


@pytest.mark.parametrize(
    ("most", "stop", "expected"),
    [
        (worst(200, 10, least=1), "length", "cost-cap"),
        (worst(10, 2_000, least_tokens=1), "length", "token-cap"),
        (worst(200, 2_000, least=1, least_tokens=1), "length", "cost-cap"),
        (worst(200, 10, least=1), "stop", None),
        (worst(10, 10), "length", None),
    ],
)
def test_an_answer_that_ended_where_the_cap_had_it_end_tells_of_that_cap(attempt, most, stop, expected):
    attempt.call(most, stop)

    assert attempt.refused() == expected


def test_only_the_last_answer_tells(attempt):
    attempt.call(worst(200, least=1), "length")
    attempt.call(worst(10))

    assert attempt.refused() is None


def test_a_call_that_was_cut_by_a_stop_tells_of_it_while_the_stop_lasts(attempt):
    call_id = opened(attempt.ledger, attempt.run_id, worst=worst(10))
    pauses.pause(attempt.database, "*", actor="me", stops_calls=True)
    attempt.ledger.settle_call(call_id, CallEnd(200, "aborted"), cost(1))

    assert attempt.refused() == "stopped"
    pauses.resume(attempt.database, "*", actor="me")
    assert attempt.refused() is None


def test_an_answer_that_was_cut_before_the_stop_tells_nothing(attempt):
    attempt.call(worst(10), "aborted")
    pauses.pause(attempt.database, "*", actor="me", stops_calls=True)

    assert attempt.refused() is None
    assert attempt.ask(worst(1)) == CallRefused("stopped")
    assert attempt.refused() == "stopped"


def test_a_call_that_was_assumed_is_no_refusal(attempt):
    opened(attempt.ledger, attempt.run_id, worst=worst(200, least=1))
    attempt.ledger.assume_open(HOST, attempt.database.now() + timedelta(days=1))

    assert attempt.refused() is None


@pytest.mark.parametrize("key", ["*", "scope", "project:web"])
def test_calls_are_stopped_everywhere_in_a_scope_or_in_a_project(attempt, key):
    with attempt.database.transaction() as connection:
        connection.exec_driver_sql("UPDATE runs SET project = 'web'")
    if key == "scope":
        key = value(attempt.database, "SELECT scope FROM runs")
    pauses.pause(attempt.database, key, actor="me", stops_calls=True)

    assert attempt.ask(worst(1)) == CallRefused("stopped")
    pauses.resume(attempt.database, key, actor="me")
    pauses.pause(attempt.database, "folder:/repos/another", actor="me", stops_calls=True)
    assert not isinstance(attempt.ask(worst(1)), CallRefused)


def test_a_pause_alone_lets_runs_call_and_does_not_undo_a_stop(attempt):
    assert pauses.pause(attempt.database, "*", actor="me").stopped_at is None
    assert not isinstance(attempt.ask(worst(1)), CallRefused)

    stopped = pauses.pause(attempt.database, "*", actor="me", stops_calls=True)
    again = pauses.pause(attempt.database, "*", actor="me")

    assert (stopped.changed, again.changed) == (True, False)
    assert again.stopped_at == stopped.stopped_at
    assert attempt.ask(worst(1)) == CallRefused("stopped")
