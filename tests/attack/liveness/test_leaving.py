"""A worker that is told to end ends, and no run is to blame; one that starts behind a lock starts."""

import os
import signal

import pytest
from sqlalchemy import text

from pidispatch.domain.runs.reconcile import Departure
from pidispatch.services.lifelines import Lifelines
from pidispatch.services.notes import WorkerNotes
from tests.attack.liveness.processes import GENEROUS, a_worker
from tests.flows.test_poisoned import admitted, boxed, done, looked_at, preparing
from tests.flows.test_reconciler import evidence, make_due, silence_worker
from tests.store.builders import WORKER, a_host, a_run, assert_ledger_is_exact, value
from tests.support.patience import eventually

OUTCOME = "SELECT outcome FROM runs WHERE id = :id"
MANY = 6  # more than any count that ends a run


@pytest.mark.parametrize("step", [admitted, preparing, boxed])
@pytest.mark.parametrize("row", ["deleted", "left behind"])
def test_a_run_that_is_prepared_outlives_any_number_of_orderly_stops(site, step, row):
    """The row is left behind when Postgres is away at that moment; the lifeline tells all the same."""
    run_id = a_run(site.database)

    for _ in range(MANY):
        make_due(site, run_id)
        step(site)
        if row == "deleted":
            with site.database.transaction() as connection:
                connection.execute(
                    text("UPDATE runs SET worker = 'h1:before' WHERE id = :id"), {"id": run_id}
                )
        else:
            site.left_workers.add(WORKER)
            site.hands._worker = "h1:after"
            silence_worker(site)
        site.look()

    assert evidence(site, run_id) == ["worker-left"] * MANY
    site.left_workers.clear()
    make_due(site, run_id)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0)
    site.finisher.finish(run_id)
    assert value(site.database, OUTCOME, id=run_id) == "completed"
    assert_ledger_is_exact(site.database)


def test_a_worker_that_died_untold_still_counts(site):
    run_id = a_run(site.database)
    site.runs.preparing(site.gate.admit())
    site.gone_workers.add(WORKER)
    site.hands._worker = "h1:after"

    site.look()

    assert evidence(site, run_id) == ["worker-silent"]


def a_process(folder, name):
    """What a worker process holds and notes; it ends when its descriptor is closed."""
    lifelines = Lifelines(folder)
    lifelines.hold(name)
    return lifelines, WorkerNotes(lifelines)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "workers"


def ended(lifelines):
    os.close(lifelines._held)


@pytest.mark.parametrize(("told", "lost"), [(True, 0), (False, MANY)])
def test_what_a_worker_had_in_hand_when_it_was_told_to_end_is_not_held_against_it(folder, told, lost):
    for number in range(MANY):
        lifelines, notes = a_process(folder, f"h1:{number}:ab")
        finishing, looking = notes.finishing(7), notes.looking_at(8, 3)
        finishing.__enter__()
        if told:
            lifelines.leave()  # SIGTERM, and a thread that writes on until the process is cut
        looking.__enter__()
        ended(lifelines)

    _, notes = a_process(folder, "h1:after:ab")

    assert notes.finishers_lost(7) == lost
    assert len(notes.lookers_lost()) == lost


@pytest.mark.parametrize(("told", "departure"), [(True, Departure.LEFT), (False, Departure.DIED)])
def test_a_lifeline_tells_how_its_worker_ended(folder, told, departure):
    lifelines, _ = a_process(folder, "h1:1:ab")
    other, _ = a_process(folder, "h1:2:ab")
    if told:
        lifelines.leave()
    assert other.departure("h1:1:ab") is Departure.UNKNOWN

    ended(lifelines)

    assert other.departure("h1:1:ab") is departure
    assert other.departure("elsewhere:1:ab") is Departure.UNKNOWN


def test_a_completed_run_outlives_any_number_of_orderly_stops_while_it_is_finished(site, folder):
    run_id = done(site)
    for number in range(MANY):
        lifelines, notes = a_process(folder, f"h1:{number}:ab")
        notes.finishing(run_id).__enter__()
        lifelines.leave()
        ended(lifelines)
    _, site.finisher._notes = a_process(folder, "h1:after:ab")

    site.look()
    site.hear_finishes()

    assert value(site.database, OUTCOME, id=run_id) == "completed"


def locks(connection, run_id):
    """What an admission holds while it waits for another's lock."""
    connection.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": run_id})
    connection.execute(text("SELECT 1 FROM hosts FOR NO KEY UPDATE"))


def test_a_worker_that_starts_behind_a_long_lock_starts_lives_and_ends(
    database, database_url, redis_url, tmp_path
):
    a_host(database)
    run_id = a_run(database)
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM workers"))
    epoch = value(database, "SELECT epoch FROM runs WHERE id = :id", id=run_id)
    folder = tmp_path / "home" / "run" / "workers"
    dead, notes = a_process(folder, "h1:0:ab")
    notes.looking_at(run_id, epoch).__enter__()
    ended(dead)

    with database.transaction() as connection:
        locks(connection, run_id)
        with a_worker(tmp_path, database_url, redis_url) as master:
            assert eventually(lambda: value(database, "SELECT count(*) FROM workers") == 1, within=GENEROUS)
            began = value(database, "SELECT heartbeat_at FROM workers")
            assert eventually(
                lambda: value(database, "SELECT max(heartbeat_at) FROM workers") > began, within=GENEROUS
            )
            master.send_signal(signal.SIGTERM)
            assert master.wait(GENEROUS) == 0
        assert value(database, "SELECT count(*) FROM workers") == 0
    assert evidence_of(database, run_id) == []


def evidence_of(database, run_id):
    with database.transaction() as connection:
        asked = text("SELECT reason FROM run_attempts WHERE run_id = :id ORDER BY attempt")
        return list(connection.execute(asked, {"id": run_id}).scalars())


def test_a_look_behind_a_lock_is_counted_when_the_lock_is_gone(site):
    run_id = a_run(site.database)
    looked_at(site)
    with site.database.transaction() as connection:
        connection.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": run_id})
        site.look()
        assert evidence(site, run_id) == []

    site.look()

    assert evidence(site, run_id) == ["worker-silent"]
