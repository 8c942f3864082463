"""Admission: one transaction, exact under any concurrency, and a refusal that leaves no trace."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from pidispatch.domain.limits.admission import Admitted, Deferred, NoRoom, Passed, Refused
from pidispatch.errors import DatabaseUnavailable
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.database import Database
from tests.store.builders import (
    HOST,
    WORKER,
    a_host,
    a_run,
    an_admitted_run,
    assert_ledger_is_exact,
    ready_for,
    row,
    some_caps,
    try_next,
    value,
)


def test_an_admitted_run_has_its_attempt_its_slot_and_its_reservation(database):
    a_host(database)
    run_id = a_run(database)

    found = try_next(database)

    assert found is not None
    admitted = found[1]
    assert isinstance(admitted, Admitted)
    assert admitted.claim.attempt == 1
    run = row(
        database,
        "SELECT state, host, worker, attempt, provider FROM runs WHERE id = :id",
        id=run_id,
    )
    assert run == {
        "state": "admitted",
        "host": HOST,
        "worker": WORKER,
        "attempt": 1,
        "provider": "scripted",
    }
    assert value(database, "SELECT count(*) FROM run_attempts WHERE run_id = :id", id=run_id) == 1
    assert value(database, "SELECT used FROM spend_windows") == 1
    assert_ledger_is_exact(database)


def all_got_their_go(database):
    """What was only held of the day's runs is used."""
    with database.transaction() as connection:
        connection.execute(text("UPDATE run_attempts SET go_at = clock_timestamp()"))


def test_reaching_the_cap_exactly_is_allowed_and_the_next_is_refused_without_a_trace(database):
    a_host(database, capacity=10)
    for _ in range(4):
        a_run(database)

    answers = [try_next(database, some_caps(daily=3)) for _ in range(3)]
    all_got_their_go(database)
    answers.append(try_next(database, some_caps(daily=3)))

    kinds = [type(answer[1]) for answer in answers if answer]
    assert kinds == [Admitted, Admitted, Admitted, Refused]
    assert answers[-1][1] == Refused("over-budget", "day-cap")
    refused = row(
        database,
        "SELECT outcome, reason, why, attempt FROM runs WHERE id = :id",
        id=answers[-1][0],
    )
    assert refused == {
        "outcome": "policy",
        "reason": "over-budget",
        "why": "day-cap",
        "attempt": 0,
    }
    assert value(database, "SELECT used FROM spend_windows") == 3
    assert value(database, "SELECT count(*) FROM reservations WHERE run_id = :id", id=answers[-1][0]) == 0
    assert_ledger_is_exact(database)


def test_a_busy_folder_defers_the_second_run_and_names_the_first(database):
    a_host(database)
    first = an_admitted_run(database, folder="/repos/same")
    second = a_run(database, folder="/repos/same")

    admissions = Admissions(database, host=HOST, worker=WORKER)
    assert admissions.next_due([]) is None  # seen without a lock, so that a busy folder costs nothing

    with database.transaction() as connection:
        connection.execute(text("UPDATE runs SET mutex = NULL WHERE id = :id"), {"id": second})
    waiting = admissions.next_due([])
    assert waiting is not None
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET mutex = (SELECT mutex FROM runs WHERE id = :first) WHERE id = :id"),
            {"id": second, "first": first.run_id},
        )
    answer = admissions.admit(waiting, ready_for(database, second))

    assert answer == Deferred("scope")
    waits = row(database, "SELECT state, cause, blocked_by FROM runs WHERE id = :id", id=second)
    assert waits == {"state": "deferred", "cause": "scope", "blocked_by": first.run_id}
    assert value(database, "SELECT blocked_by FROM why_waiting") == first.public_id
    assert_ledger_is_exact(database)


def test_a_full_host_changes_nothing(database):
    a_host(database, capacity=1)
    an_admitted_run(database)
    waiting = a_run(database)

    found = try_next(database)

    assert found == (waiting, NoRoom())
    assert value(database, "SELECT state FROM runs WHERE id = :id", id=waiting) == "queued"
    assert_ledger_is_exact(database)


def test_nothing_is_admitted_while_everything_is_paused(database):
    a_host(database)
    run_id = a_run(database)
    admissions = Admissions(database, host=HOST, worker=WORKER)
    waiting = admissions.next_due([])
    assert waiting is not None
    with database.transaction() as connection:
        connection.execute(text("UPDATE scopes SET paused_at = now() WHERE key = '*'"))

    assert admissions.admit(waiting, ready_for(database, run_id)) == Deferred("paused")
    assert admissions.next_due([]) is None

    with database.transaction() as connection:
        connection.execute(text("UPDATE scopes SET paused_at = NULL WHERE key = '*'"))
    assert admissions.next_due([]) is not None


def test_a_run_that_changed_since_it_was_seen_is_passed_by(database):
    a_host(database)
    run_id = a_run(database)
    admissions = Admissions(database, host=HOST, worker=WORKER)
    seen = admissions.next_due([])
    assert seen is not None
    assert isinstance(admissions.admit(seen, ready_for(database, run_id)), Admitted)

    assert admissions.admit(seen, ready_for(database, run_id)) == Passed()
    assert value(database, "SELECT used FROM spend_windows") == 1


def test_a_run_of_another_host_is_not_seen(database):
    a_host(database)
    a_run(database)

    assert Admissions(database, host="h2", worker="h2:1").next_due([]) is None


def test_priority_goes_first_and_a_scope_that_ran_last_goes_last(database):
    a_host(database, capacity=10)
    an_admitted_run(database, folder="/repos/tired")
    with database.transaction() as connection:
        connection.execute(text("UPDATE runs SET state = 'finishing'"))
        connection.execute(text("UPDATE scopes SET occupied = 0"))
        connection.execute(
            text("UPDATE runs SET state='ended', outcome='completed', reason='completed', ended_at=now()")
        )
    tired = a_run(database, folder="/repos/tired")
    fresh = a_run(database, folder="/repos/fresh")
    urgent = a_run(database, folder="/repos/urgent", priority=10)

    order = [found[0] for found in (try_next(database), try_next(database), try_next(database)) if found]

    assert order == [urgent, fresh, tired]


def test_eight_threads_admit_exactly_the_cap(database_url):
    database = Database(database_url, pool_size=8)
    a_host(database, capacity=100)
    for _ in range(30):
        a_run(database)

    def admit_all(_: int) -> int:
        admitted = 0
        while (found := try_next(database, some_caps(daily=17))) is not None:
            admitted += isinstance(found[1], Admitted)
        return admitted

    with ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(admit_all, range(8)))

    assert total == 17
    assert value(database, "SELECT used FROM spend_windows") == 17
    assert value(database, "SELECT count(*) FROM runs WHERE cause = 'cap-held'") == 13
    all_got_their_go(database)
    assert admit_all(0) == 0
    assert value(database, "SELECT count(*) FROM runs WHERE reason = 'over-budget'") == 13
    assert_ledger_is_exact(database)
    database.close()


def test_the_database_itself_refuses_a_second_active_run_in_one_folder(database):
    a_host(database)
    an_admitted_run(database, folder="/repos/same")
    second = a_run(database, folder="/repos/same")

    with pytest.raises(IntegrityError, match="runs_one_per_folder"), database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET state = 'admitted', host = 'h1', attempt = 1 WHERE id = :id"),
            {"id": second},
        )


def test_a_database_that_does_not_answer_is_one_error_of_ours():
    gone = Database("postgresql+psycopg://nobody@/none?host=/nonexistent")

    with pytest.raises(DatabaseUnavailable):
        Admissions(gone, host=HOST, worker=WORKER).next_due([])
