"""A box, a door or files that are not on an old list are not gone: each moment between list, row and act is tried."""

import pytest

from pidispatch.domain.runs.reconcile import Departure
from tests.flows.test_reconciler import make_due, silence_worker
from tests.store.builders import a_run, assert_ledger_is_exact, row, value

STANDS = "SELECT state, cause, attempt FROM runs WHERE id = :id"
RUNNING = {"state": "running", "cause": None, "attempt": 1}


def then(act, once):
    """`act`, and after its first answer `once`, as another thread would just then."""
    left = [once]

    def both(*arguments):
        found = act(*arguments)
        while left:
            left.pop()()
        return found

    return both


def test_a_box_that_is_made_while_a_look_goes_on_is_left_alone(site, monkeypatch):
    run_id = a_run(site.database)
    monkeypatch.setattr(site.boxes, "ours", then(site.boxes.ours, site.started))

    site.look()

    assert row(site.database, STANDS, id=run_id) == RUNNING
    assert [box.status for box in site.boxes.ours(site.installation)] == ["running"]


def test_a_box_that_got_its_go_while_a_look_goes_on_is_left_alone(site, monkeypatch):
    run_id = a_run(site.database)
    monkeypatch.setattr(site.boxes, "ours", then(site.boxes.ours, lambda: site.go(site.started()[0])))

    site.look()
    site.hear_finishes()

    assert row(site.database, STANDS, id=run_id) == RUNNING


@pytest.mark.parametrize("given", [True, False])
def test_a_box_that_the_list_leaves_out_is_asked_for_by_its_id(site, monkeypatch, given):
    run_id = a_run(site.database)
    claim, container = site.started()
    if given:
        site.go(claim)
    monkeypatch.setattr(site.boxes, "ours", lambda _: [])

    site.look()
    site.hear_finishes()

    assert row(site.database, STANDS, id=run_id) == RUNNING
    assert site.boxes.inspect(container) is not None


def test_what_is_decided_of_one_attempt_is_not_done_to_the_next(site):
    run_id = a_run(site.database)
    site.gate.admit()
    judged = site.runs.occupant(run_id)
    silence_worker(site)
    site.look()
    make_due(site, run_id)
    _, container = site.started()

    site.finisher.take_back(judged, Departure.DIED)

    assert row(site.database, STANDS, id=run_id) == {**RUNNING, "attempt": 2}
    assert site.boxes.inspect(container) is not None


def test_a_box_recorded_between_the_decision_and_the_act_is_left_alone(site):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    judged = site.runs.occupant(run_id)
    site.launcher.start(claim)

    site.finisher.take_back(judged, Departure.DIED)

    assert row(site.database, STANDS, id=run_id) == RUNNING
    assert len(site.boxes.ours(site.installation)) == 1


def given_back(site):
    """A run that waits for its second attempt, and whose first left its door behind."""
    run_id = a_run(site.database)
    claim, container = site.started()
    site.boxes.finish(container, 97)
    site.finisher.finish(run_id)
    site.doors.directories.add(run_id)
    make_due(site, run_id)
    assert claim.attempt == 1
    return run_id


def test_a_door_that_the_next_attempt_opens_during_a_look_stays_open(site, monkeypatch):
    run_id = given_back(site)
    monkeypatch.setattr(site.runs, "occupants", then(site.runs.occupants, site.started))

    site.look()

    assert row(site.database, STANDS, id=run_id) == {**RUNNING, "attempt": 2}
    assert site.doors.opened == {run_id}
    assert len(site.files.kept) == 1


def test_the_door_of_a_run_that_waits_is_still_removed(site):
    given_back(site)

    site.look()

    assert site.doors.directories == set()
    assert_ledger_is_exact(site.database)


def test_a_box_that_is_truly_gone_is_still_lost(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.remove(container)

    site.look()
    site.hear_finishes()

    assert value(site.database, "SELECT reason FROM runs WHERE id = :id", id=run_id) == "lost"
