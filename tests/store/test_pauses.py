"""The operator's switch: once it has returned, nothing starts."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pidispatch.domain.limits.admission import Admitted
from pidispatch.store.admission.pauses import bells_after_resume, known, pause, resume
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.database import Database
from pidispatch.store.read.queue import queue_status
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

ME = "me@h1"


def audit(database):
    with database.transaction() as connection:
        found = connection.exec_driver_sql("SELECT actor, action, subject, detail FROM audit_log ORDER BY id")
        return [tuple(each) for each in found]


def test_a_pause_is_kept_says_who_and_leaves_a_row_in_the_audit_log(database):
    a_host(database)
    an_admitted_run(database)
    a_run(database)

    made = pause(database, "*", actor=ME, reason="the provider is down")

    assert (made.changed, made.paused_by, made.running, made.waiting) == (True, ME, 1, 1)
    assert made.everything_paused_at == made.paused_at
    assert try_next(database) is None
    assert value(database, "SELECT paused_at FROM scopes WHERE key = '*'") == made.paused_at
    assert audit(database) == [(ME, "pause", "*", {"changed": True, "reason": "the provider is down"})]


def test_a_second_pause_keeps_the_first_and_a_second_resume_changes_nothing(database):
    first = pause(database, "*", actor=ME)

    second = pause(database, "*", actor="you@h2")

    assert (second.changed, second.paused_at, second.paused_by) == (False, first.paused_at, ME)
    assert resume(database, "*", actor=ME).changed
    again = resume(database, "*", actor=ME)
    assert (again.changed, again.paused_at) == (False, None)
    assert [(action, detail["changed"]) for _, action, _, detail in audit(database)] == [
        ("pause", True), ("pause", False), ("resume", True), ("resume", False),
    ]  # fmt: skip


def test_a_paused_scope_holds_back_its_runs_alone(database):
    a_host(database, capacity=5)
    held = a_run(database, folder="/repos/held")
    free = a_run(database, folder="/repos/free")

    made = pause(database, "folder:/repos/held", actor=ME)

    assert (made.waiting, made.everything_paused_at) == (1, None)
    assert [found[0] for found in iter(lambda: try_next(database), None)] == [free]
    assert resume(database, "folder:/repos/held", actor=ME).waiting == 1
    found = try_next(database)
    assert found is not None
    assert found[0] == held


def test_a_scope_that_no_run_was_asked_for_in_can_be_paused_beforehand(database):
    a_host(database)
    assert not known(database, "folder:/repos/later")

    pause(database, "folder:/repos/later", actor=ME)

    assert known(database, "folder:/repos/later")
    a_run(database, folder="/repos/later")
    assert try_next(database) is None


def test_a_paused_project_is_not_offered_again_and_again(database):
    a_host(database)
    run_id = a_run(database)
    pause(database, "project:web", actor=ME)

    assert not isinstance(try_next(database, project="web")[1], Admitted)
    assert Admissions(database, host=HOST, worker=WORKER).next_due([]) is None
    resume(database, "project:web", actor=ME)

    assert row(database, "SELECT state, cause FROM runs WHERE id = :id", id=run_id) == {
        "state": "queued",
        "cause": None,
    }
    assert isinstance(try_next(database, project="web")[1], Admitted)


def test_a_run_that_was_seen_before_the_pause_is_told_why_and_goes_on_after(database):
    a_host(database)
    run_id = a_run(database)
    admissions = Admissions(database, host=HOST, worker=WORKER)
    seen = admissions.next_due([])
    pause(database, "*", actor=ME)

    admissions.admit(seen, ready_for(database, run_id))

    facts = value(database, "SELECT admission FROM runs WHERE id = :id", id=run_id)
    assert facts["pause"] == ["*"]
    assert facts["answer"]["cause"] == "paused"
    assert queue_status(database, ()).causes == {"paused": 1}
    resume(database, "*", actor=ME)
    assert queue_status(database, ()).causes == {"waiting-for-a-worker": 1}
    assert try_next(database)[0] == run_id


def test_hosts_are_rung_for_what_may_start_and_no_more(database):
    a_host(database, capacity=2)
    a_host(database, capacity=4, host="h2")
    assert bells_after_resume(database) == []
    an_admitted_run(database)
    for _ in range(5):
        a_run(database)

    assert bells_after_resume(database) == [("h1", 1)]


@pytest.mark.parametrize("scope", ["*", "folder:/repos/shared"])
def test_nothing_is_admitted_after_a_pause_has_returned_however_many_are_at_it(database_url, scope):
    """Each of eight threads admits without end; the pause gets its turn all the same."""
    database = Database(database_url, pool_size=10)
    a_host(database, capacity=100_000)
    stop = threading.Event()

    def an_endless_line():
        while not stop.is_set():
            folder = None if scope == "*" else "/repos/shared"
            run_id = a_run(database, folder=folder)
            with database.transaction() as connection:  # the folder's lock is not what is tried here
                connection.exec_driver_sql(f"UPDATE runs SET mutex = NULL WHERE id = {run_id}")
            admit_one(run_id)

    def admit_one(run_id):
        admissions = Admissions(database, host=HOST, worker=WORKER)
        seen = admissions.next_due([])
        if seen is not None:
            admissions.admit(seen, ready_for(database, seen.run_id, some_caps(10**6), mutex=None))

    admitted = "SELECT count(*) FROM runs WHERE state = 'admitted'"
    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(an_endless_line) for _ in range(8)]
        try:
            while value(database, admitted) < 30:
                assert not any(thread.done() for thread in threads)
            made = pause(database, scope, actor=ME)
            right_after = value(database, admitted)
            waiting = "SELECT count(*) FROM runs WHERE state <> 'admitted'"
            while value(database, waiting) < 60:
                assert not any(thread.done() for thread in threads)
        finally:
            stop.set()
        for thread in threads:
            thread.result(30)

    assert right_after >= 30
    assert value(database, admitted) == right_after
    assert value(database, "SELECT max(admitted_at) FROM runs") < made.paused_at
    assert_ledger_is_exact(database)
    database.close()
