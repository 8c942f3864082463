"""A cancel against real rows and the flows of a worker: whatever the box does, the operator's wish is recorded."""

import pytest

from pidispatch.errors import DatabaseUnavailable, EngineUnavailable
from pidispatch.store.runs import cancelling
from pidispatch.upkeep.leaving import Leaving
from tests.store.builders import HOST, WORKER, a_run, assert_ledger_is_exact, row, value

ENDED = "SELECT state, outcome, reason FROM runs WHERE id = :id"
CANCELLED = {"state": "ended", "outcome": "policy", "reason": "operator-cancel"}


def cancel(site, run_id):
    return cancelling.cancel(site.database, run_id, actor="ada@h1")


def settle(site):
    """Looks and bells, as many as a stop takes."""
    for _ in range(4):
        site.look()
        site.hear_finishes()


def with_its_go(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    return run_id, claim, container


def prepared(site):
    a_run(site.database)
    return site.runs.preparing(site.gate.admit()).claim.run_id


def boxed_without_go(site):
    run_id = a_run(site.database)
    site.started()
    return run_id


@pytest.mark.parametrize(
    ("reach", "charged"),
    [
        (lambda site: a_run(site.database), 0),
        (lambda site: (a_run(site.database), site.gate.admit())[0], 0),
        (prepared, 0),
        (boxed_without_go, 0),
        (lambda site: with_its_go(site)[0], 1),
    ],
    ids=["queued", "admitted", "preparing", "boxed", "running"],
)
def test_a_cancel_ends_a_run_in_every_state_and_leaves_nothing(site, reach, charged):
    run_id = reach(site)

    cancel(site, run_id)
    settle(site)

    assert row(site.database, ENDED, id=run_id) == CANCELLED
    assert site.nothing_is_left()
    assert value(site.database, "SELECT coalesce(sum(used), 0) FROM spend_windows") == charged
    assert value(site.database, "SELECT count(*) FROM reservations WHERE state = 'held'") == 0
    assert_ledger_is_exact(site.database)


def test_a_worker_that_leaves_ends_what_it_sees_ended_without_a_bell(site):
    run_id, _, container = with_its_go(site)
    site.reconciler.leave()
    site.boxes.finish(container, 0)

    site.look()

    assert site.bell.finishes == []
    assert value(site.database, "SELECT outcome FROM runs WHERE id = :id", id=run_id) == "completed"


def test_a_box_that_ends_by_itself_after_the_cancel_is_recorded_as_cancelled(site):
    run_id, _, container = with_its_go(site)

    cancel(site, run_id)
    site.boxes.finish(container, 0)
    settle(site)

    assert row(site.database, ENDED, id=run_id) == CANCELLED


def test_a_cancel_between_the_judgement_and_its_record_is_recorded(site, monkeypatch):
    run_id, _, container = with_its_go(site)
    site.boxes.finish(container, 0)
    end = site.endings.end

    def cancelled_meanwhile(*arguments, **more):
        monkeypatch.setattr(site.endings, "end", end)
        cancel(site, run_id)
        return end(*arguments, **more)

    monkeypatch.setattr(site.endings, "end", cancelled_meanwhile)
    site.finisher.finish(run_id)
    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "finishing"
    settle(site)

    assert row(site.database, ENDED, id=run_id) == CANCELLED
    assert site.nothing_is_left()


def test_a_run_cancelled_while_it_is_prepared_gets_no_box_that_works(site, monkeypatch):
    run_id = a_run(site.database)
    create = site.boxes.create

    def cancelled_meanwhile(spec):
        cancel(site, run_id)
        return create(spec)

    monkeypatch.setattr(site.boxes, "create", cancelled_meanwhile)
    site.launcher.start(site.gate.admit())
    settle(site)

    assert row(site.database, ENDED, id=run_id) == CANCELLED
    assert site.nothing_is_left()


def test_a_preparer_that_fails_after_the_cancel_does_not_queue_the_run_again(site, monkeypatch):
    run_id = a_run(site.database)

    def fails(spec):
        cancel(site, run_id)
        raise EngineUnavailable("down")

    monkeypatch.setattr(site.boxes, "create", fails)
    site.launcher.start(site.gate.admit())
    settle(site)

    assert row(site.database, ENDED, id=run_id) == CANCELLED


def leaving(site, *, stop, within=None, sleep=lambda _: None):
    return Leaving(site.runs, host=HOST, worker=WORKER, stop=stop, within=within, sleep=sleep)


def test_a_draining_worker_waits_for_the_runs_of_its_host_and_asks_none_to_stop(site):
    run_id, _, container = with_its_go(site)
    looks = []

    def sleep(_):
        looks.append(value(site.database, "SELECT stop_reason FROM runs WHERE id = :id", id=run_id))
        if len(looks) == 3:
            site.boxes.finish(container, 0)
            settle(site)

    leaving(site, stop=False, sleep=sleep)()

    assert len(looks) >= 3
    assert set(looks) == {None}
    assert value(site.database, "SELECT outcome FROM runs WHERE id = :id", id=run_id) == "completed"


def test_a_stopping_worker_asks_its_runs_to_stop_and_waits_until_they_are_gone(site):
    run_id, _, _ = with_its_go(site)

    leaving(site, stop=True, within=20, sleep=lambda _: settle(site))()

    ended = row(site.database, "SELECT outcome, reason, why FROM runs WHERE id = :id", id=run_id)
    assert ended == {"outcome": "policy", "reason": "worker-abort", "why": "shutdown"}


def test_a_stopping_worker_does_not_wait_for_ever(site):
    run_id, _, _ = with_its_go(site)

    leaving(site, stop=True, within=0)()

    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "running"


def test_runs_that_another_worker_starts_meanwhile_do_not_hold_up_the_end(site):
    first, _, container = with_its_go(site)
    looks = []

    def sleep(_):
        looks.append(1)
        if len(looks) == 2:
            a_run(site.database)
            site.started()
            with site.database.transaction() as connection:
                connection.exec_driver_sql("UPDATE runs SET worker = 'h1:another' WHERE state = 'running'")
            site.boxes.finish(container, 0)
            site.finisher.finish(first)

    leaving(site, stop=False, sleep=sleep)()

    assert value(site.database, "SELECT count(*) FROM runs WHERE state = 'running'") == 1


def test_a_database_that_is_away_is_waited_for(site, monkeypatch):
    answers = [DatabaseUnavailable("down"), DatabaseUnavailable("down")]
    occupants = site.runs.occupants

    def now_and_then(host):
        if answers:
            raise answers.pop()
        return occupants(host)

    monkeypatch.setattr(site.runs, "occupants", now_and_then)
    leaving(site, stop=False)()

    assert answers == []
