"""While a window is locked, others wait: what is said to Postgres meanwhile is counted on the wire (at most two turns)."""

import re

import pytest
from sqlalchemy import bindparam, event, text
from sqlalchemy.dialects.postgresql import JSONB

from pidispatch.domain.limits.admission import Admitted, Refused
from pidispatch.domain.providers.calls import CallEnd
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.database import Database
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from tests.store.builders import HOST, WORKER, a_boxed_run, a_host, a_run, ready_for, some_caps, try_next
from tests.support.calls import opened

CONTAINER = "c0ffee" * 10

MESSAGE = re.compile(r"\S+ \S+\t([FB])\t")


@pytest.fixture
def traced(database_url, tmp_path):
    """A database whose first connection writes down every message of its protocol."""
    database = Database(database_url, pool_size=1)
    trace = tmp_path / "trace"
    with trace.open("w") as file:
        event.listen(database._engine, "connect", lambda driver, _: driver.pgconn.trace(file.fileno()))
        yield database, trace
        database.close()


def round_trips(trace):
    """Each turn of the conversation: all that was sent before Postgres was waited for."""
    turns, sending = [""], False
    for line in trace.read_text().splitlines():
        message = MESSAGE.match(line)  # else it goes on with the statement of the line before
        sends = sending if message is None else message[1] == "F"
        if sends and not sending:
            turns.append("")
        if sends:
            turns[-1] += line + "\n"
        sending = sends
    return turns


def while_locked(trace):
    """For each statement that locks windows, the round trips until the transaction's end; one alone ends with itself."""
    locked, since, begun = [], None, False
    for number, sent in enumerate(round_trips(trace)):
        begun = begun or "BEGIN" in sent
        ends = "COMMIT" in sent or "ROLLBACK" in sent
        since = number if "admission_take" in sent else since
        if since is not None and (ends or not begun):
            locked.append(number - since)
            since = None
        begun = begun and not ends
    return locked


def test_an_admission_locks_and_frees_its_windows_in_one_round_trip(traced):
    database, trace = traced
    a_host(database)
    a_run(database)

    assert isinstance(try_next(database)[1], Admitted)

    assert while_locked(trace) == [0]


def test_a_refusal_frees_the_windows_with_its_next_word(traced):
    database, trace = traced
    a_host(database)
    a_run(database)

    assert isinstance(try_next(database, some_caps(daily=0))[1], Refused)

    assert while_locked(trace) == [0, 1]


def test_a_look_and_an_admission_take_two_round_trips(traced):
    database, trace = traced
    a_host(database)
    a_run(database)
    admissions = Admissions(database, host=HOST, worker=WORKER)
    ready = ready_for(database, 1)
    admissions.sync({}, capacity=3)
    before = len(round_trips(trace))

    answer = admissions.admit(admissions.next_due([]), ready)

    assert isinstance(answer, Admitted)
    assert len(round_trips(trace)) - before == 2, trace.read_text()[-9000:]


def test_a_model_call_is_one_round_trip_to_open_and_one_to_settle(traced):
    database, trace = traced
    a_host(database)
    claim = a_boxed_run(database, container=CONTAINER)
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, 1, CONTAINER)
    ledger = PostgresCallLedger(database)
    before = len(round_trips(trace))

    call_id = opened(ledger, claim.run_id)
    after_opening = len(round_trips(trace))
    ledger.settle_call(call_id, CallEnd(200, "stop"))

    assert (after_opening - before, len(round_trips(trace)) - after_opening) == (1, 1), trace.read_text()[
        -9000:
    ]


def test_a_call_of_a_run_that_made_ten_thousand_reads_no_more_than_its_first(database):
    a_host(database)
    claim = a_boxed_run(database, container=CONTAINER)
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, 1, CONTAINER)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET max_turns = 100000, max_tokens = 1000000, cost_cap_micros = 1000000")
        )
        connection.execute(text("""
            INSERT INTO provider_calls (run_id, attempt, host, provider, model, api, state, settled_at)
            SELECT :run, 1, 'h1', 'p', 'm', 'a', 'settled', now() FROM generate_series(1, 10000)"""), {"run": claim.run_id})  # fmt: skip
    asked = {"run": claim.run_id, "attempt": 1, "provider": "p", "model": "m", "api": "a", "micros": 1, "tokens": 1,
             "least_micros": 1, "least_tokens": 1}  # fmt: skip
    explained = text("EXPLAIN (ANALYZE, BUFFERS) SELECT call FROM call_open(:asked)").bindparams(
        bindparam("asked", type_=JSONB)
    )

    with database.transaction() as connection:
        connection.execute(explained, {"asked": asked})  # with its plans made
        told = "\n".join(connection.execute(explained, {"asked": asked}).scalars())

    found = re.search(r"Buffers: shared hit=(\d+)", told)
    assert found is not None, told
    assert int(found[1]) < 60, told
