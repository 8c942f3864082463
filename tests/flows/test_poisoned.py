"""A run that takes its workers with it, at whatever step between the bell and its end, is ended after the third."""

import json
import signal

import pytest
from sqlalchemy import text

from pidispatch.services.lifelines import Lifelines
from pidispatch.services.notes import WorkerNotes
from pidispatch.store.runs.cancelling import cancel
from tests.flows import victim
from tests.flows.site import Site
from tests.flows.test_reconciler import a_box, evidence, make_due, silence_worker
from tests.store.builders import IDENTITY, WORKER, a_run, after_a_look, assert_ledger_is_exact, row, value
from tests.support.calls import opened
from tests.support.forks import FORKS
from tests.support.patience import LONGER

ENDED = "SELECT outcome, reason, why, exit_code FROM runs WHERE id = :id"
POISONED = {"outcome": "failed", "reason": "poisoned", "why": "worker-silent", "exit_code": None}
EXIT_LINE = json.dumps({"event": "exit", "jobId": "x", "code": 0, "reason": "all-done", "turns": 1})


def admitted(site):
    site.gate.admit()


def preparing(site):
    site.runs.preparing(site.gate.admit())


def boxed(site):
    claim = site.runs.preparing(site.gate.admit()).claim
    spec = a_box(claim.run_id, claim.attempt)
    site.runs.boxed(claim, container_id=site.boxes.create(spec), name=spec.name)


def started(site):
    site.started()
    site.offset = "91 seconds"  # it never asked for its go


def looked_at(site):
    waiting = site.gate._admissions.next_due([])
    site.notes.looks.append((waiting.run_id, waiting.epoch))


STEPS = [looked_at, admitted, preparing, boxed, started]


def take_a_worker(site, run_id, step):
    make_due(site, run_id)
    step(site)
    silence_worker(site)
    site.look()
    site.offset = "0 seconds"
    site.hosts.beat(WORKER, IDENTITY)


@pytest.mark.parametrize("steps", [*([step] * 3 for step in STEPS), STEPS[:3], STEPS[2:]])
def test_three_workers_lost_before_the_go_end_a_run_that_paid_nothing(site, steps):
    run_id = a_run(site.database)

    for step in steps:
        take_a_worker(site, run_id, step)

    assert row(site.database, ENDED, id=run_id) == POISONED
    assert evidence(site, run_id) == ["worker-silent", "worker-silent", "poisoned"]
    assert value(site.database, "SELECT coalesce(sum(used), 0) FROM spend_windows") == 0
    assert value(
        site.database, "SELECT expires_at IS NOT NULL FROM run_payloads WHERE run_id = :id", id=run_id
    )
    site.look()
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


def test_a_worker_lost_over_a_look_counts_once_however_many_processes_see_it(site):
    run_id = a_run(site.database)
    looked_at(site)

    site.look()
    Site(site.database, notes=site.notes).look()

    assert evidence(site, run_id) == ["worker-silent"]
    waits = row(site.database, "SELECT state, cause, attempt FROM runs WHERE id = :id", id=run_id)
    assert waits == {"state": "deferred", "cause": "worker-silent", "attempt": 1}


def test_a_look_that_led_to_an_admission_counts_by_its_row_alone(site):
    run_id = a_run(site.database)
    looked_at(site)
    after_a_look(site.database)
    site.gate.admit()

    site.look()

    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "admitted"
    assert evidence(site, run_id) == [None]


def test_a_run_that_paid_before_it_was_poisoned_keeps_its_place_paid(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    call = opened(site.ledger, run_id, 1, provider="scripted", model="happy", api="x")
    with site.database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE provider_calls SET state = 'settled', settled_at = now(), status = 500 WHERE id = :id"
            ),
            {"id": call},
        )
    site.boxes.finish(container, 1)
    site.finisher.finish(run_id)

    for _ in range(3):
        take_a_worker(site, run_id, looked_at)

    assert row(site.database, ENDED, id=run_id) == POISONED
    assert evidence(site, run_id) == ["provider-failed", "worker-silent", "worker-silent", "poisoned"]
    assert value(site.database, "SELECT used FROM spend_windows") == 1
    assert value(site.database, "SELECT calls FROM runs WHERE id = :id", id=run_id) == 1
    assert_ledger_is_exact(site.database)


def done(site):
    """A run whose box did its work, and which nobody has finished yet."""
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0, f"\n{EXIT_LINE}\n".encode())
    return run_id


def test_three_workers_lost_over_an_ending_end_the_run_without_reading_it_again(site, monkeypatch):
    run_id = done(site)
    site.notes.finishes = [run_id] * 3
    monkeypatch.setattr(site.boxes, "tail", None)  # what took three with it

    site.look()
    site.hear_finishes()

    assert row(site.database, ENDED, id=run_id) == {**POISONED, "exit_code": 0}
    assert evidence(site, run_id) == ["poisoned"]
    assert value(site.database, "SELECT used FROM spend_windows") == 1  # it had its go
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


def test_two_workers_lost_over_an_ending_may_be_chance(site):
    run_id = done(site)
    site.notes.finishes = [run_id] * 2

    site.look()
    site.hear_finishes()

    assert value(site.database, "SELECT outcome FROM runs WHERE id = :id", id=run_id) == "completed"
    assert (
        value(site.database, "SELECT reported ->> 'reason' FROM runs WHERE id = :id", id=run_id) == "all-done"
    )


def test_workers_lost_at_different_steps_add_up(site):
    run_id = a_run(site.database)
    take_a_worker(site, run_id, looked_at)
    take_a_worker(site, run_id, preparing)
    make_due(site, run_id)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0)
    site.notes.finishes = [run_id]

    site.look()
    site.hear_finishes()

    assert row(site.database, ENDED, id=run_id) == {**POISONED, "exit_code": 0}
    assert evidence(site, run_id) == ["worker-silent", "worker-silent", "poisoned"]


def test_an_operators_cancel_goes_before_the_count(site):
    run_id = done(site)
    site.notes.finishes = [run_id] * 3
    cancel(site.database, run_id, actor="ada@h1")

    site.look()
    site.hear_finishes()

    assert value(site.database, "SELECT reason FROM runs WHERE id = :id", id=run_id) == "operator-cancel"


class Graveyard:
    """Real worker processes that die at a step, and a site beside them that reads what they left behind."""

    def __init__(self, database, url, folder):
        self.url, self.folder = url, folder
        beside = Lifelines(folder)
        beside.hold("h1:0:ab")
        self.site = Site(database, notes=WorkerNotes(beside))
        self.dead = 0

    def lose_a_worker(self, step, run_id=0):
        self.dead += 1
        worker = f"h1:{self.dead}:ab"
        process = FORKS.Process(target=victim.main, args=(self.url, self.folder, worker, step, run_id))
        process.start()
        process.join(60 * LONGER)
        assert process.exitcode == -signal.SIGKILL


@pytest.fixture
def graveyard(database, database_url, tmp_path):
    return Graveyard(database, database_url, tmp_path / "run" / "workers")


@pytest.mark.parametrize("step", ["folder", "transaction"])
def test_a_run_that_kills_real_workers_during_its_admission_is_poisoned(graveyard, step):
    site, run_id = graveyard.site, a_run(graveyard.site.database)

    for _ in range(3):
        make_due(site, run_id)
        graveyard.lose_a_worker(step)
        site.look()

    assert row(site.database, ENDED, id=run_id) == POISONED
    assert evidence(site, run_id) == ["worker-silent", "worker-silent", "poisoned"]
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize("step", ["tail", "record"])
def test_a_run_that_kills_real_workers_during_its_ending_is_poisoned(graveyard, step):
    site, run_id = graveyard.site, done(graveyard.site)

    for _ in range(3):
        graveyard.lose_a_worker(step, run_id)
    site.finisher.finish(run_id)

    assert row(site.database, ENDED, id=run_id) == {**POISONED, "exit_code": 0}
    assert value(site.database, "SELECT used FROM spend_windows") == 1
    assert_ledger_is_exact(site.database)


def test_a_worker_killed_while_it_waits_for_the_gateway_was_not_killed_by_the_run(graveyard):
    site = graveyard.site
    first = a_run(site.database)
    graveyard.lose_a_worker("gateway")
    site.look()
    assert evidence(site, first) == []

    after_a_look(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0)
    for _ in range(3):
        graveyard.lose_a_worker("gateway", first)
    site.finisher.finish(first)

    assert value(site.database, "SELECT outcome FROM runs WHERE id = :id", id=first) == "completed"
