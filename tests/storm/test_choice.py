"""Who is next: priority with ageing of 600 s a step, scopes in turn, then age."""

from collections import Counter

import pytest
from sqlalchemy import text

from pidispatch.domain.limits.admission import Admitted, Refused
from pidispatch.domain.limits.windows import EVERYTHING, Unit, run_caps
from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import (
    HOST,
    WORKER,
    a_host,
    a_run,
    assert_ledger_is_exact,
    ready_for,
    row,
    try_next,
    value,
)
from tests.storm.crowd import a_crowd

PLENTY = run_caps(EVERYTHING, day=1_000_000, week=None, month=None)
STEP = 600  # seconds of waiting that are worth one step of priority


def start_next(database):
    """Start whichever run is next, and end it; returns its id and scope."""
    admissions = Admissions(database, host=HOST, worker=WORKER)
    run = admissions.next_due([])
    answer = admissions.admit(run, ready_for(database, run.run_id, PLENTY))
    assert isinstance(answer, Admitted)
    finishing = Runs(database).finishing(answer.claim)
    assert Endings(database).end(finishing, End(Outcome.COMPLETED, "completed"), BoxEnd())
    return run.run_id, run.scope


def let_pass(database, seconds):
    """Time passes for everybody who waits."""
    with database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE runs SET queued_at = queued_at - make_interval(secs => :seconds) WHERE state = 'queued'"
            ),
            {"seconds": seconds},
        )


@pytest.fixture
def a_thousand(database):
    a_host(database, capacity=3)
    a_crowd(database, runs=1000, scope="'folder:' || n % 10", mutex="'inode:' || n", waited=300)
    return database


def test_a_run_of_priority_ten_starts_before_a_thousand_that_wait(a_thousand):
    urgent = a_run(a_thousand, priority=10)

    assert start_next(a_thousand)[0] == urgent


def test_no_scope_starts_twice_while_another_waits_and_is_free(a_thousand):
    scopes = [start_next(a_thousand)[1] for _ in range(100)]

    for turn in range(0, 100, 10):
        assert Counter(scopes[turn : turn + 10]) == dict.fromkeys(scopes[:10], 1)
    assert len(set(scopes[:10])) == 10


def test_a_scope_that_is_full_loses_its_turn_and_no_other_waits_for_it(a_thousand):
    with a_thousand.transaction() as connection:
        connection.execute(text("""UPDATE scopes SET occupied = 1, "limit" = 1 WHERE key = 'folder:3'"""))

    scopes = [start_next(a_thousand)[1] for _ in range(18)]

    assert Counter(scopes) == {f"folder:{number}": 2 for number in range(10) if number != 3}


@pytest.mark.parametrize(("waited", "first"), [(10 * STEP - 60, False), (11 * STEP, True)])
def test_ten_steps_of_waiting_outweigh_ten_of_priority(database, waited, first):
    a_host(database)
    low = a_run(database, priority=-10)
    let_pass(database, waited)
    a_run(database, priority=0)

    assert (start_next(database)[0] == low) is first


def test_a_run_of_priority_minus_ten_starts_within_its_bound_however_many_keep_coming(database):
    """One run comes and one starts each minute, for ever, behind twenty that wait already."""
    minute, backlog = 60, 20
    bound = (
        10 * STEP + backlog * minute + STEP
    )  # its steps, the age of those before it, one step to round down
    a_host(database)
    low = a_run(database, priority=-10)
    for _ in range(backlog):
        a_run(database)
    waited = 0

    while start_next(database)[0] != low:
        waited += minute
        assert waited <= bound
        let_pass(database, minute)
        a_run(database)

    assert waited >= 10 * STEP - backlog * minute


def test_after_a_hundred_refusals_a_raised_cap_admits_at_once(database):
    a_host(database, capacity=3)
    a_run(database)
    assert isinstance(try_next(database, every_window(cap=1))[1], Admitted)
    what_is_held_is_used(database)
    for _ in range(100):
        a_run(database)
        assert try_next(database, every_window(cap=1))[1] == Refused("over-budget", "day-cap")

    a_run(database)
    assert isinstance(try_next(database, every_window(cap=2))[1], Admitted)
    assert_ledger_is_exact(database)


def what_is_held_is_used(database):
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE reservations SET state = 'settled', settled = held, closed_at = clock_timestamp()")
        )


def test_a_refused_run_holds_nothing(database):
    a_host(database, capacity=3)
    refused = [a_run(database) for _ in range(100)]
    for _ in refused:
        assert try_next(database, every_window(cap=0))[1] == Refused("over-budget", "day-cap")

    counts = row(
        database,
        "SELECT (SELECT count(*) FROM reservations) AS reserved, (SELECT count(*) FROM spend_windows) AS windows,"
        " (SELECT sum(occupied) FROM scopes) AS occupied, (SELECT count(*) FROM run_attempts) AS attempts",
    )
    assert counts == {"reserved": 0, "windows": 0, "occupied": 0, "attempts": 0}
    assert value(database, "SELECT count(*) FROM runs WHERE reason = 'over-budget'") == len(refused)


def every_window(cap):
    """The narrow windows have room; the day of everything decides."""
    narrow = run_caps("folder:wide-open", day=10_000, week=10_000, month=10_000)
    money = run_caps(EVERYTHING, day=10**9, week=10**9, month=10**9, unit=Unit.MICROS, amount=1000)
    return (*narrow, *run_caps(EVERYTHING, day=cap, week=10_000, month=10_000), *money)
