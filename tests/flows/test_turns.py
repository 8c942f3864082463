"""Which lock a run takes turns by: a folder's is looked up, a forge's run brings that of its subject."""

from pidispatch.domain.triggers.trigger import WhileRunning
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.triggers.arrivals import Arrivals
from tests.store.arriving import ISSUE, an_arrival
from tests.store.builders import HOST, WORKER, a_run, after_a_look, assert_ledger_is_exact, row, value


def test_a_run_of_a_forge_takes_its_subjects_slot_and_gives_it_back(site):
    arrived = Arrivals(site.database).arrive(an_arrival())
    seen = Admissions(site.database, host=HOST, worker=WORKER).next_due([])
    assert (seen.kind, seen.mutex) == ("github", ISSUE.mutex)
    after_a_look(site.database)

    claim = site.gate.admit()

    assert claim.run_id == arrived.run_id
    assert value(site.database, "SELECT mutex FROM runs") == ISSUE.mutex
    assert value(site.database, "SELECT occupied FROM scopes WHERE key = :key", key=ISSUE.mutex) == 1
    site.launcher.start(claim)
    site.boxes.finish(site.container(claim.run_id), 1)
    site.finisher.finish(claim.run_id)
    assert value(site.database, "SELECT occupied FROM scopes WHERE key = :key", key=ISSUE.mutex) == 0
    assert_ledger_is_exact(site.database)


def test_runs_that_may_go_on_beside_each_other_have_no_lock(site):
    for source in ("github", "gitlab"):
        Arrivals(site.database).arrive(
            an_arrival(source, policy=WhileRunning.PARALLEL, window=0, body=source.encode())
        )

    assert site.gate.admit() is not None
    assert site.gate.admit() is not None

    assert value(site.database, "SELECT count(*) FROM runs WHERE mutex IS NULL AND state = 'admitted'") == 2


def test_a_folders_lock_is_that_of_the_directory_as_it_is_now(site):
    run_id = a_run(site.database, folder="/repos/x")
    brought = value(site.database, "SELECT mutex FROM runs WHERE id = :id", id=run_id)

    assert site.gate.admit() is not None

    assert value(site.database, "SELECT mutex FROM runs WHERE id = :id", id=run_id) != brought


def test_the_bounds_of_scopes_leave_a_subjects_single_slot_alone(site):
    Arrivals(site.database).arrive(an_arrival())

    Admissions(site.database, host=HOST, worker=WORKER).sync({}, capacity=3)

    limit = 'SELECT "limit" FROM scopes WHERE key = :key'
    assert row(site.database, limit, key=ISSUE.mutex) == {"limit": 1}
