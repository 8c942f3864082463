"""Two at once, a thousand times: never two in, never one left asleep, never a deadlock."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from pidispatch.domain.ask import Terms
from pidispatch.domain.limits import EVERYTHING, run_caps
from pidispatch.domain.outcome import End
from pidispatch.domain.run import BoxEnd, NewRun, Outcome, Waiting
from pidispatch.ports import Admitted, Deferred, NoRoom, Ready
from pidispatch.store.admission import PostgresAdmissions
from pidispatch.store.endings import PostgresEndings
from pidispatch.store.runs import PostgresRuns
from tests.store.builders import HOST, WORKER, a_host, assert_ledger_is_exact, value
from tests.support.scale import scaled
from tests.support.submitting import submit as submit_run

ROUNDS = scaled(200, nightly=1000)
SCOPE = "folder:race"
CAPS = run_caps(EVERYTHING, day=1_000_000, week=1_000_000, month=None)
_numbers = count(1)


class Race:
    """Two threads, each with its own connection, that start at the same moment, or nearly."""

    def __init__(self, database, shared):
        self.database, self.shared = database, shared
        self.admissions = PostgresAdmissions(database, host=HOST, worker=WORKER)
        self.runs, self.endings = PostgresRuns(database), PostgresEndings(database)
        self._pool = ThreadPoolExecutor(2)
        self._barrier = threading.Barrier(2, timeout=20)
        self._takes = 0.002  # seconds, for one of the two: so every pair of their steps meets

    def close(self):
        self._pool.shutdown()

    def together(self, first, second):
        """Both at once, one of them later by a part of what it takes the other, however slow the machine is."""

        def start(act, delay):
            self._barrier.wait()
            time.sleep(delay)
            began = time.perf_counter()
            answer = act()
            self._takes = 0.9 * self._takes + 0.1 * min(time.perf_counter() - began, 0.5)
            return answer

        delays = [0.0, random.uniform(0, 2 * self._takes)]
        random.shuffle(delays)
        futures = [
            self._pool.submit(start, act, delay) for act, delay in zip((first, second), delays, strict=True)
        ]
        return [future.result(timeout=30) for future in futures]

    def a_waiter(self):
        """A run that shares its folder, or its scope of one run at a time, with all others of this race."""
        number = next(_numbers)
        mutex = f"inode:{HOST}:{0 if self.shared == 'folder' else number}"
        scope = f"folder:{number}" if self.shared == "host" else SCOPE
        run_id = submit_run(
            self.database,
            NewRun(
                public_id=f"race-{number}",
                folder=b"/repos/x",
                folder_given=b"/repos/x",
                task=b"work",
                task_bytes=4,
                event=b"{}",
                scope=scope,
                target="local:x",
                pinned_host=HOST,
                mutex=mutex,
            ),
        )
        assert run_id is not None
        return self._seen(run_id, scope), mutex

    def _seen(self, run_id, scope):
        """As an admission sees it that looked while the place was free."""
        now = self.database.now()
        return Waiting(run_id, "", 0, b"/repos/x", b"/repos/x", scope, 0, now)

    def admit(self, waiter):
        waiting, mutex = waiter
        return self.admissions.admit(waiting, self._ready(mutex))

    def _ready(self, mutex):
        return Ready(
            terms=Terms("scripted", "happy", "i", max_turns=1),
            image_id="i",
            engine_id="e",
            mutex=mutex,
            caps=CAPS,
            capacity=1 if self.shared == "host" else 10,
            concurrent={SCOPE: 1} if self.shared == "scope" else {},
            project=None,
            facts={"gates": {}},
        )

    def end(self, claim):
        verdict = End(Outcome.COMPLETED, "completed")
        assert self.endings.end(self.runs.finishing(claim), verdict, BoxEnd())

    def again(self, run_id):
        """The run as the next look offers it: it must be offered now."""
        waiting = self.admissions.next_due([])
        assert waiting is not None
        assert waiting.run_id == run_id
        return waiting

    def deadlocks(self):
        return value(
            self.database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        )


@pytest.fixture
def race(database, shared):
    a_host(database, capacity=10)
    race = Race(database, shared)
    yield race
    race.close()
    assert race.deadlocks() == 0
    assert_ledger_is_exact(database)


@pytest.mark.parametrize("shared", ["folder", "scope", "host"])
def test_of_two_admissions_for_one_place_exactly_one_gets_it(race, shared):
    loser = race.a_waiter()
    for _ in range(ROUNDS):
        pair = [loser, race.a_waiter()]

        answers = race.together(lambda pair=pair: race.admit(pair[0]), lambda pair=pair: race.admit(pair[1]))

        won = [answer for answer in answers if isinstance(answer, Admitted)]
        lost = [answer for answer in answers if answer in {Deferred("scope"), NoRoom()}]
        assert (len(won), len(lost)) == (1, 1), answers
        race.end(won[0].claim)
        waiting, mutex = pair[answers.index(lost[0])]
        loser = (race.again(waiting.run_id), mutex)


@pytest.mark.parametrize("shared", ["folder", "scope", "host"])
def test_a_finisher_and_the_admission_of_its_waiter_never_leave_it_asleep(race, shared):
    holder = race.admit(race.a_waiter()).claim
    met = Counter()
    for _ in range(ROUNDS):
        waiter = race.a_waiter()

        def admit(waiter=waiter, holder=holder):
            answer = race.admit(waiter)
            if isinstance(answer, Admitted):
                assert (
                    value(race.database, "SELECT state FROM runs WHERE id = :id", id=holder.run_id) == "ended"
                )
            return answer

        _, answer = race.together(lambda holder=holder: race.end(holder), admit)

        met[type(answer)] += 1
        if answer in {Deferred("scope"), NoRoom()}:
            waiting, mutex = waiter
            answer = race.admit((race.again(waiting.run_id), mutex))
        assert isinstance(answer, Admitted)
        holder = answer.claim
    race.end(holder)
    assert len(met) == 2, met  # both orders were really met
    assert min(met.values()) > ROUNDS // 50, met
