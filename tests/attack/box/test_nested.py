"""Folders that lie in each other take turns: the agent in the outer one could exchange the inner one."""

import os
import threading

import pytest

from pidispatch.domain.checkup import Grade
from pidispatch.ports import Admitted, Deferred
from pidispatch.runtime.workspace import open_folder
from pidispatch.store.admission import PostgresAdmissions
from pidispatch.store.invariants import look_for_contradictions
from tests.flows.site import Site
from tests.store.builders import HOST, WORKER, a_host, a_run, after_a_look, ready_for, row
from tests.support.boxes import SOMEBODY
from tests.support.scale import scaled

ROUNDS = scaled(10, nightly=100)


@pytest.fixture
def site(database):
    site = Site(database)
    look = site.gate._checks
    look._open_folder = lambda path: open_folder(path, worker_uid=os.geteuid())
    return site


@pytest.fixture
def tree(tmp_path):
    """`a/b/c`, of somebody who may run jobs."""
    if os.geteuid() == 0:
        for path in (tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/c", tmp_path / "else"):
            path.mkdir()
            os.chown(path, SOMEBODY, SOMEBODY)
    else:
        (tmp_path / "a/b/c").mkdir(parents=True)
        (tmp_path / "else").mkdir()
    return tmp_path


def admitted(site, path):
    run_id = a_run(site.database, folder=str(path))
    claim = site.gate.admit()
    return run_id, claim is not None and claim.run_id == run_id


@pytest.mark.parametrize(("first", "second"), [("a", "a/b"), ("a/b", "a"), ("a", "a/b/c"), ("a/b/c", "a")])
def test_a_run_waits_for_the_one_around_it_and_for_the_one_inside(site, tree, first, second):
    holder, went = admitted(site, tree / first)
    assert went
    waiter, went = admitted(site, tree / second)

    assert not went
    said = row(site.database, "SELECT state, cause, blocked_by FROM runs WHERE id = :id", id=waiter)
    assert said == {"state": "deferred", "cause": "scope", "blocked_by": holder}
    after_a_look(site.database)
    assert site.hosts.bells_due() == 0  # nobody looks at it again for nothing
    assert site.gate.admit() is None


def test_it_starts_when_the_other_has_ended(site, tree):
    holder, _ = admitted(site, tree / "a")
    waiter, _ = admitted(site, tree / "a/b")
    after_a_look(site.database)

    site.runs.request_stop(holder, reason="operator-cancel")
    site.look()

    claim = site.gate.admit()
    assert claim is not None
    assert claim.run_id == waiter


def test_neighbours_do_not_wait_for_each_other(site, tree):
    assert admitted(site, tree / "a/b")[1]
    assert admitted(site, tree / "else")[1]


def test_a_directory_around_is_known_by_what_it_is_and_not_by_its_name(site, tree):
    assert admitted(site, tree / "a")[1]
    (tree / "a").rename(tree / "other")
    (tree / "link").symlink_to(tree / "other/b")

    assert not admitted(site, tree / "link")[1]


def test_of_two_that_are_admitted_at_once_one_waits(database):
    a_host(database, capacity=3)
    outer, inner = f"inode:{HOST}:1:1", f"inode:{HOST}:1:2"
    for _ in range(ROUNDS):
        runs = [a_run(database, mutex=outer), a_run(database, mutex=inner)]
        within = {runs[0]: (), runs[1]: (outer, f"inode:{HOST}:1:0")}
        admissions = PostgresAdmissions(database, host=HOST, worker=WORKER)
        looked_at = [admissions.next_due([]), admissions.next_due([])]
        answers, line = [], threading.Barrier(2)

        def admit(run, answers=answers, line=line, within=within, admissions=admissions):
            ready = ready_for(database, run.run_id, within=within[run.run_id], caps=())
            line.wait()
            answers.append(admissions.admit(run, ready))

        threads = [threading.Thread(target=admit, args=(run,)) for run in looked_at]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(type(answer).__name__ for answer in answers) == [Admitted.__name__, Deferred.__name__]
        found = {finding.check: finding.grade for finding in look_for_contradictions(database)}
        assert found["folders"] is Grade.OK
        with database.transaction() as connection:
            connection.exec_driver_sql(
                "UPDATE scopes SET occupied = 0;"
                "UPDATE runs SET state = 'ended', outcome = 'policy', ended_at = now(), cause = NULL, reason = 'x'"
                " WHERE state <> 'ended'"
            )
