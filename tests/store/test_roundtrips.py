"""While a window is locked, others wait: what is said to Postgres meanwhile is counted on the wire (at most two turns)."""

import re

import pytest
from sqlalchemy import event

from pidispatch.ports import Admitted, Refused
from pidispatch.store.admission import PostgresAdmissions
from pidispatch.store.database import Database
from tests.store.builders import HOST, WORKER, a_host, a_run, ready_for, some_caps, try_next

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
    admissions = PostgresAdmissions(database, host=HOST, worker=WORKER)
    ready = ready_for(database, 1)
    admissions.sync({}, capacity=3)
    before = len(round_trips(trace))

    answer = admissions.admit(admissions.next_due([]), ready)

    assert isinstance(answer, Admitted)
    assert len(round_trips(trace)) - before == 2, trace.read_text()[-9000:]
