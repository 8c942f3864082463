"""A cancel of many runs reaches all of them at once: none waits for another's stop, nor for another's lock."""

import subprocess
import sys
import threading

from sqlalchemy import text

from pidispatch.store.runs import cancelling
from pidispatch.store.runs.transitions import Runs
from pidispatch.upkeep.pool import DaemonPool
from tests.attack.liveness.processes import an_environment
from tests.flows.site import Site
from tests.store.builders import a_boxed_run, a_host, a_run, try_next, value
from tests.support.patience import eventually

MANY = 24


def test_many_boxes_are_stopped_at_the_same_time(database):
    site = Site(database, capacity=MANY)
    for _ in range(MANY):
        a_run(database)
        site.go(site.started()[0])
    for run_id in cancelling.live_runs(database):
        cancelling.cancel(database, run_id, actor="ada@h1")
    together, stop = threading.Barrier(MANY), site.boxes.stop

    def waits_for_the_others(container_id, *, grace):
        together.wait(60)  # broken when fewer are asked at the same time
        stop(container_id, grace=grace)

    site.boxes.stop = waits_for_the_others
    site.look()
    site.look()
    site.hear_finishes()

    assert value(database, "SELECT count(*) FROM runs WHERE reason = 'operator-cancel'") == MANY


def test_a_run_whose_row_is_locked_holds_up_no_other(database):
    a_host(database, capacity=3)
    locked, *others = [a_boxed_run(database, f"{number:x}" * 64).run_id for number in range(3)]
    with database.transaction() as connection:
        connection.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": locked})

        asked = {
            run_id: cancelling.cancel_if_free(database, run_id, actor="ada@h1")
            for run_id in cancelling.live_runs(database)
        }

        assert asked[locked] is None
        assert all(Runs(database).facts(each).stop_reason == "operator-cancel" for each in others)
    assert cancelling.cancel_if_free(database, locked, actor="ada@h1") is not None


def test_all_that_spend_are_asked_before_the_first_that_waits_and_none_starts_meanwhile(database):
    a_host(database)
    running = a_boxed_run(database).run_id
    waiting = [a_run(database), a_run(database)]

    assert cancelling.live_runs(database) == [running, *waiting]
    assert try_next(database) is None


def test_the_command_asks_those_that_are_free_while_one_is_locked(
    database, database_url, redis_url, tmp_path
):
    a_host(database, capacity=3)
    locked, *others = [a_boxed_run(database, f"{number:x}" * 64).run_id for number in range(3)]
    facts = Runs(database).facts
    with database.transaction() as connection:
        connection.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": locked})
        command = subprocess.Popen(
            [sys.executable, "-m", "pidispatch", "cancel", "--all"],
            env=an_environment(tmp_path, database_url, redis_url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        asked = eventually(lambda: all(facts(each).stop_reason for each in others), within=120)
        waits = command.poll() is None and facts(locked).stop_reason is None
    try:
        assert asked
        assert waits
        assert eventually(lambda: facts(locked).stop_reason == "operator-cancel", within=120)
    finally:
        command.kill()
        command.wait()


def test_a_pool_has_as_many_threads_as_were_busy_at_once_and_no_more():
    pool = DaemonPool(8, "test")
    for _ in range(20):
        pool.submit(lambda: None).result(20)
    assert len(pool._threads) == 1

    together = threading.Barrier(8)
    for future in [pool.submit(lambda: together.wait(20) and None) for _ in range(8)]:
        future.result(20)
    assert len(pool._threads) == 8
    pool.let_go()
