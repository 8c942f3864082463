"""Dollars under load: no instant at which a run or a day holds and has spent more than its cap."""

import json
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import text

from pidispatch.domain.checkup import Grade
from pidispatch.errors import StaleEpoch
from pidispatch.ports import CallEnd, CallOpened, CallRefused
from pidispatch.store.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.database import Database
from pidispatch.store.endings import PostgresEndings
from pidispatch.store.invariants import look_for_contradictions
from pidispatch.store.runs import PostgresRuns
from tests.store.builders import HOST, a_boxed_run, a_host, a_run, assert_ledger_is_exact, value
from tests.storm.spender import APPLICATION, DAY, PROCESSES, RUN, Spender, finish
from tests.support.calls import cost, worst
from tests.support.scale import scaled

ROOT = Path(__file__).resolve().parents[2]
DAYS, RUNS, PATIENCE = scaled(1, nightly=3), 16, 900
CONTAINER = "c0ffee" * 10
THREADS, ROUNDS = 8, scaled(200, nightly=1000)

# One statement sees one instant: what the day's window counts, and what the calls of all runs hold and came to.
CONNECTED = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{APPLICATION}'"
INSTANT = text("""
SELECT coalesce((SELECT max(used) FROM spend_windows), 0) AS day,
       coalesce((SELECT sum(used) FROM spend_windows), 0) AS used,
       coalesce((SELECT sum(counted_micros) FROM provider_calls), 0) AS calls,
       coalesce((SELECT max(s.micros) FROM (SELECT sum(counted_micros) AS micros FROM provider_calls GROUP BY run_id) s), 0)
         AS dearest,
       (SELECT count(*) FROM runs WHERE state IN ('admitted', 'preparing', 'running', 'finishing')) AS runs
""")


class Watcher:
    """Looks at the sums all the time, each time at one instant."""

    def __init__(self, database):
        self.database, self.over, self.seen = database, threading.Event(), []
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.is_set():
            with self.database.transaction() as connection:
                self.seen.append(connection.execute(INSTANT).one())
            time.sleep(0.005)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Storm:
    def __init__(self, database):
        self.database, self.processes, self.dead = database, {}, set()
        self.spender = Spender(database, f"{HOST}:reaper")
        self._numbers = count(1)

    def start(self):
        name = f"{HOST}:p{next(self._numbers)}"
        url = self.database.url.render_as_string(hide_password=False)
        command = [sys.executable, "-m", "tests.storm.spender", json.dumps([url, name])]
        self.processes[name] = subprocess.Popen(command, cwd=ROOT)

    def kill_one(self):
        """kill -9 in the middle of whatever it does, and finish its runs as another worker would."""
        name = random.choice(list(self.processes))
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        self.dead.add(name)
        eventually(lambda: self._nothing_left_by(name))
        self.start()

    def _nothing_left_by(self, name):
        """Its last statements may still be at work, so whatever moves meanwhile is looked at again."""
        left = self._left_by(name)
        for run_id in left:
            with suppress(StaleEpoch):
                finish(self.spender, run_id)
        return not left

    def _left_by(self, name):
        with self.database.transaction() as connection:
            found = connection.execute(
                text(
                    "SELECT id FROM runs WHERE starts_with(worker, :name || ':') AND state IN"
                    " ('admitted', 'preparing', 'running', 'finishing')"
                ),
                {"name": name},
            )
            return list(found.scalars())

    def wait_for_all(self):
        """Until every process is there, so that runs start at the same time."""
        eventually(lambda: value(self.database, CONNECTED) >= 2 * PROCESSES)

    def wait_for_the_end(self):
        # A statement that the dead had sent may have been carried out after the look at what they left.
        eventually(lambda: all(map(self._nothing_left_by, self.dead)) and self.unfinished() == 0)
        assert {process.poll() for process in self.processes.values()} == {None}

    def unfinished(self):
        return value(self.database, "SELECT count(*) FROM runs WHERE state <> 'ended'")

    def a_day_passes(self, day):
        """Today becomes a day of the past that no other is."""
        with self.database.transaction() as connection:
            connection.execute(
                text(
                    "UPDATE spend_windows SET starts_on = starts_on - :days WHERE starts_on > now() - interval '1 day'"
                ),
                {"days": DAYS - day},
            )


def eventually(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def a_storm(database):
    storm = Storm(database)
    try:
        for _ in range(PROCESSES):
            storm.start()
        yield storm
    finally:
        for process in storm.processes.values():
            process.kill()
            process.wait()


def assert_nothing_contradicts(database):
    assert_ledger_is_exact(database)
    assert [found for found in look_for_contradictions(database) if found.grade is not Grade.OK] == []
    assert value(database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


def test_ten_runs_at_once_never_hold_and_spend_more_than_the_day_allows(database):
    a_host(database, capacity=2 * PROCESSES)

    with Watcher(database) as watcher, a_storm(database) as storm:
        for day in range(DAYS):
            storm.wait_for_all()
            for _ in range(RUNS):
                a_run(database)
            time.sleep(0.3)
            storm.kill_one()
            storm.wait_for_the_end()
            storm.a_day_passes(day)

    assert max(instant.day for instant in watcher.seen) <= DAY
    assert all(instant.calls <= instant.used for instant in watcher.seen)
    assert max(instant.dearest for instant in watcher.seen) <= RUN
    assert max(instant.runs for instant in watcher.seen) == 2 * PROCESSES
    days = value(database, "SELECT array_agg(used) FROM spend_windows")
    assert len(days) == DAYS
    assert all(0 < used <= DAY for used in days)
    assert sum(days) == value(database, "SELECT sum(counted_micros) FROM provider_calls")
    assert value(database, "SELECT count(*) FROM runs WHERE reason = 'dollar-cap'") > 0
    assert_nothing_contradicts(database)


class Race:
    """One run at work, and threads that do things to it at the same moment."""

    def __init__(self, database):
        self.database = Database(database.url.render_as_string(hide_password=False), pool_size=THREADS + 2)
        a_host(database)
        self.run_id = a_boxed_run(database, container=CONTAINER).run_id
        self.tickets, self.ledger = (
            PostgresTickets(self.database, timeout=600),
            PostgresCallLedger(self.database),
        )
        self.runs, self.endings = PostgresRuns(self.database), PostgresEndings(self.database)
        self._pool, self._barrier = ThreadPoolExecutor(THREADS), threading.Barrier(THREADS, timeout=20)

    def go(self):
        return self.tickets.give_go(self.run_id, 1, CONTAINER)

    def open(self, most):
        return self.ledger.open_call(self.run_id, 1, provider="p", model="m", api="a", worst=most)

    def settle(self, opened, micros):
        self.ledger.settle_call(opened.call_id, CallEnd(200, "stop"), cost(micros))

    def change(self, statement, **values):
        with self.database.transaction() as connection:
            connection.execute(text(statement), values)

    def together(self, act):
        def start(number):
            self._barrier.wait()
            return act(number)

        return [future.result(30) for future in [self._pool.submit(start, n) for n in range(THREADS)]]

    def close(self):
        self._pool.shutdown()
        self.database.close()


@pytest.fixture
def race(database):
    race = Race(database)
    yield race
    race.close()
    assert_nothing_contradicts(database)


def test_of_eight_calls_at_once_none_takes_a_cent_that_another_took(race):
    race.go()
    race.change("UPDATE runs SET max_turns = 100000")
    for _ in range(ROUNDS):
        race.change("UPDATE runs SET cost_cap_micros = 100 + (SELECT sum(used_micros) FROM run_attempts)")

        answers = race.together(lambda _: race.open(worst(30, least=1)))

        won = [answer for answer in answers if isinstance(answer, CallOpened)]
        assert sorted(answer.micros for answer in won) == [10, 30, 30, 30]
        assert {answer for answer in answers if answer not in won} == {CallRefused("cost-cap")}
        race.together(
            lambda n, won=won: n < len(won) and race.settle(won[n], random.randint(0, won[n].micros))
        )


def test_calls_that_keep_coming_keep_nobody_from_stopping_or_ending_their_run(race):
    race.go()
    race.change("UPDATE runs SET cost_cap_micros = 1000, max_turns = 100000")
    waited = []

    def act(number):
        if number:
            while race.open(worst(random.choice([0, 2000]))) != CallRefused("closed"):
                pass
            return
        time.sleep(0.5)
        since = time.monotonic()
        assert race.runs.request_stop(race.run_id, reason="operator-cancel")
        waited.append(time.monotonic() - since)

    race.together(act)

    assert waited[0] < 1
    assert finish(race, race.run_id)


def test_whatever_is_done_to_a_run_at_once_waits_in_no_ring(race):
    race.change("UPDATE runs SET cost_cap_micros = 1000000, max_turns = 100000")
    opened = []

    def act(number):
        for _ in range(60):
            match random.randrange(6):
                case 0:
                    race.go()
                case 1 | 2:
                    answer = race.open(worst(random.choice([5, 2_000_000])))
                    if isinstance(answer, CallOpened):
                        opened.append(answer)
                case 3 if opened:
                    race.settle(random.choice(opened), 3)  # in time, late, or again
                case 4:
                    race.tickets.assume_calls(race.run_id)
                case _:
                    race.tickets.keep_report(race.run_id, 1, {"n": number}, verified=False)

    race.together(act)

    assert finish(race, race.run_id)
    for each in opened:
        race.settle(each, 3)
    assert value(race.database, "SELECT count(*) FROM provider_calls WHERE state = 'settled'") == len(opened)
