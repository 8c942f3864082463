"""Held runs on a real Postgres with real check programs: held, asked after, let go or given up."""

import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.triggers.wait import WaitBounds
from pidispatch.errors import DatabaseUnavailable, QueueUnavailable
from pidispatch.services.waitcheck import CheckPrograms
from pidispatch.store.runs import cancelling
from pidispatch.store.runs.waits import Waits
from pidispatch.upkeep.waiting import WaitKeeper
from tests.fakes.outside import FakeChecks
from tests.store.builders import HOST, a_held_run, a_host, assert_ledger_is_exact, row, try_next, value
from tests.support.patience import slowness, until

CI, REVIEW = WaitProfile("ci"), WaitProfile("review")
MINUTE = timedelta(minutes=1)
BOUNDS = WaitBounds(checks_max=4, faults_max=2)


@dataclass
class Bells:
    rung: list[str] = field(default_factory=list)
    down: bool = False

    def ring_start(self, host, times=1):
        if self.down:
            raise QueueUnavailable("down")
        self.rung += [host] * times


@dataclass
class Place:
    """A worker's keeper, and the programs that an operator wrote."""

    database: object
    folder: object
    bells: Bells = field(default_factory=Bells)
    keepers: list = field(default_factory=list)

    def program(self, name, body):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\necho $1 >> {self.folder}/asked-{name}\n{body}\n")
        path.chmod(0o755)

    def keeper(self, worker="h1:1", slots=1, bounds=BOUNDS, timeout=20.0, checks=None):
        keeper = WaitKeeper(
            host=HOST,
            waits=Waits(self.database, host=HOST, worker=worker, check_seconds=timeout + 5),
            checks=checks or CheckPrograms(timeout=timeout, home="/nowhere"),
            programs={name: str(self.folder / name) for name in ("ci", "review")},
            bounds=bounds,
            slots=slots,
            bell=self.bells,
            clock=self.database.now,
            jitter=lambda: 0.0,
        )
        self.keepers.append(keeper)
        return keeper

    def asked(self, name="ci"):
        path = self.folder / f"asked-{name}"
        return path.read_text().split() if path.exists() else []

    def look(self, keeper):
        keeper.look()
        assert keeper.settled(30)

    def run(self, run_id):
        return row(
            self.database,
            "SELECT r.*, w.* FROM runs r JOIN run_waits w ON w.run_id = r.id WHERE r.id = :id",
            id=run_id,
        )

    def make_due(self, run_id):
        with self.database.transaction() as connection:
            connection.execute(
                text(
                    "UPDATE run_waits SET next_check_at = now() WHERE run_id = :id AND next_check_at IS NOT NULL"
                ),
                {"id": run_id},
            )


@pytest.fixture
def place(database, tmp_path):
    a_host(database)
    return Place(database, tmp_path)


def how(found):
    return found["reason"] or found["state"]


def test_a_check_that_says_go_queues_the_run_and_rings(place):
    place.program("ci", "exit 0")
    run_id = a_held_run(place.database, CI)

    place.look(place.keeper())

    found = place.run(run_id)
    assert (found["state"], found["last_profile"], found["last_answer"], found["checks"]) == (
        "queued",
        "ci",
        "go",
        1,
    )
    assert place.asked() == [found["target"]]
    assert place.bells.rung == [HOST]
    assert try_next(place.database)[0] == run_id


def test_a_check_that_says_not_yet_is_made_again_a_minute_later(place):
    place.program("ci", "exit 3")
    keeper = place.keeper()
    run_id = a_held_run(place.database, CI)

    place.look(keeper)
    place.look(keeper)

    found = place.run(run_id)
    assert (found["state"], found["cause"], found["checks"], found["faults"]) == ("held", "wait", 1, 0)
    assert found["not_before"] == found["next_check_at"] == found["last_at"] + MINUTE
    assert place.asked() == [found["target"]]
    assert place.bells.rung == []
    assert try_next(place.database) is None
    assert_ledger_is_exact(place.database)

    place.program("ci", "exit 0")
    place.make_due(run_id)
    place.look(keeper)
    assert place.run(run_id)["state"] == "queued"


@pytest.mark.parametrize(
    ("body", "checks", "end"),
    [
        ("exit 2", 1, "wait-refused"),
        ("exit 3", 4, "wait-expired"),
        ("exit 1", 2, "wait-unanswerable"),
        ("kill -9 $$", 2, "wait-unanswerable"),
        ("exit 77", 2, "wait-unanswerable"),
    ],
)
def test_a_wait_that_leads_nowhere_ends_with_its_reason(place, body, checks, end):
    place.program("ci", body)
    keeper = place.keeper()
    run_id = a_held_run(place.database, CI)

    for _ in range(6):
        place.make_due(run_id)
        place.look(keeper)

    found = place.run(run_id)
    assert (found["state"], found["outcome"], found["reason"], found["checks"]) == (
        "ended",
        "policy",
        end,
        checks,
    )
    assert len(place.asked()) == checks
    assert (found["attempt"], found["next_check_at"]) == (0, None)
    assert_ledger_is_exact(place.database)


def test_a_check_that_takes_too_long_is_a_fault(place):
    place.program("ci", "sleep 300")
    run_id = a_held_run(place.database, CI)

    place.look(place.keeper(timeout=0.5))

    found = place.run(run_id)
    assert (found["state"], found["last_answer"], found["faults"]) == ("held", "fault", 1)


def test_programs_are_asked_in_the_order_they_were_written_until_one_does_not_say_go(place):
    place.program("review", "exit 0")
    place.program("ci", "exit 3")
    run_id = a_held_run(place.database, REVIEW, CI, WaitAfter(place.database.now() - MINUTE))

    place.look(place.keeper())
    place.program("review", "exit 3")
    place.make_due(run_id)
    place.look(place.keeper())

    assert (len(place.asked("review")), len(place.asked("ci"))) == (2, 1)
    assert place.run(run_id)["last_profile"] == "review"


def test_no_program_is_asked_before_its_instant_has_come(place):
    place.program("ci", "exit 0")
    instant = place.database.now() + timedelta(hours=3)
    run_id = a_held_run(place.database, CI, WaitAfter(instant))

    place.look(place.keeper())

    found = place.run(run_id)
    assert (found["state"], found["not_before"], found["asking"], found["checks"]) == (
        "held",
        instant,
        False,
        0,
    )
    assert place.asked() == []


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ((WaitProfile("gone"),), "wait-profile-unknown"),
        ((CI, WaitProfile("gone")), "wait-profile-unknown"),
        ((WaitAfter(None),), "wait-after-beyond-max"),
    ],
)
def test_what_can_never_be_met_is_refused_at_the_first_look(place, conditions, reason):
    far = place.database.now() + timedelta(days=31)
    conditions = [WaitAfter(far) if isinstance(each, WaitAfter) else each for each in conditions]
    run_id = a_held_run(place.database, *conditions)

    place.look(place.keeper())

    assert how(place.run(run_id)) == reason


def test_a_second_delivery_of_the_same_is_answered_with_the_run_that_waits(place):
    place.program("ci", "exit 3")
    keeper = place.keeper()
    first = a_held_run(place.database, CI, key="k#0")
    place.look(keeper)
    second = a_held_run(place.database, CI, key="k#0")

    place.look(keeper)

    assert how(place.run(first)) == "held"
    assert (how(place.run(second)), place.run(second)["superseded_by"]) == ("wait-superseded", first)
    place.program("ci", "exit 0")
    place.make_due(first)
    place.look(keeper)
    third = a_held_run(place.database, CI, key="k#0")
    place.look(keeper)
    assert how(place.run(third)) == "wait-superseded"
    assert len(place.asked()) == 2


def test_a_run_starts_although_redis_does_not_answer(place):
    place.program("ci", "exit 0")
    place.bells.down = True
    run_id = a_held_run(place.database, CI)

    place.look(place.keeper())

    assert place.run(run_id)["state"] == "queued"


def test_a_cancel_during_a_check_wins(place):
    place.program("ci", f"while [ ! -e {place.folder}/release ]; do sleep 0.05; done; exit 0")
    keeper = place.keeper()
    run_id = a_held_run(place.database, CI)
    keeper.look()
    assert not keeper.settled(0)

    cancelling.cancel(place.database, run_id, actor="ada@h1")
    (place.folder / "release").touch()

    assert keeper.settled(20)
    assert how(place.run(run_id)) == "operator-cancel"
    assert place.bells.rung == []


def test_what_cannot_be_written_is_asked_again_when_the_claim_has_run_out(place):
    place.program("ci", "exit 0")
    keeper = place.keeper()
    run_id = a_held_run(place.database, CI)
    settle = keeper._waits.settle
    keeper._waits.settle = lambda held, step: settle(held, step) if not held.asking else _away()

    place.look(keeper)
    assert place.run(run_id)["state"] == "held"
    with place.database.transaction() as connection:
        connection.execute(text("UPDATE run_waits SET lease_until = now()"))
    place.look(place.keeper(worker="h1:2"))

    assert place.run(run_id)["state"] == "queued"
    assert len(place.asked()) == 2


def _away():
    raise DatabaseUnavailable("away")


@pytest.fixture
def thread():
    """Run a keeper as a worker does, and end it at the end of the test."""
    stop, started = threading.Event(), []

    def start(keeper):
        body = threading.Thread(target=keeper.run, args=(stop,), daemon=True)
        body.start()
        started.append((keeper, body))
        return stop

    yield start
    stop.set()
    for keeper, body in started:
        keeper.wake.set()
        body.join(10)
        assert not body.is_alive()


def test_an_instant_is_not_slept_through(place):
    a_held_run(place.database, WaitAfter(place.database.now() + timedelta(seconds=1.6)))
    keeper = place.keeper()

    assert keeper.look() == 1.0  # nothing comes sooner than the next look
    time.sleep(0.8)
    assert 0 < keeper.look() <= 0.8


def test_an_instant_is_met_by_the_thread_of_a_worker(place, thread):
    thread(place.keeper())
    instant = place.database.now() + timedelta(seconds=2.3)
    run_id = a_held_run(place.database, WaitAfter(instant))

    until(lambda: place.run(run_id)["state"] == "queued")

    assert timedelta(seconds=-1) <= place.run(run_id)["let_go_at"] - instant < timedelta(seconds=5)


def test_a_slow_check_holds_up_neither_instants_nor_the_end_of_the_worker(place, thread):
    place.program("ci", "sleep 300")
    asking = a_held_run(place.database, CI)
    keeper = place.keeper(timeout=60)
    stop = thread(keeper)
    until(lambda: place.asked() != [])
    waiting = a_held_run(place.database, WaitAfter(place.database.now()))

    until(lambda: place.run(waiting)["state"] == "queued", 5)
    began = time.monotonic()
    stop.set()
    keeper.wake.set()

    until(lambda: place.run(asking)["lease_by"] is None)
    assert time.monotonic() - began < 5 * slowness()
    found = place.run(asking)
    assert (found["state"], found["checks"], found["faults"]) == ("held", 0, 0)
    wait = found["next_check_at"] - place.database.now()
    assert timedelta(0) < wait <= timedelta(seconds=11)


def test_two_workers_ask_one_run_once(place, thread):
    place.program("ci", "sleep 0.2; exit 3")
    runs = [a_held_run(place.database, CI) for _ in range(4)]
    for number in range(2):
        thread(place.keeper(worker=f"h1:{number}", slots=2))

    until(lambda: all(place.run(each)["checks"] == 1 for each in runs))

    assert len(place.asked()) == 4


def test_checks_of_two_workers_share_their_slots(place):
    checks = FakeChecks()
    for _ in range(6):
        a_held_run(place.database, CI)
    keepers = [place.keeper(worker=f"h1:{number}", slots=2, checks=checks) for number in range(2)]

    for keeper in keepers:
        keeper.look()
    until(lambda: checks.now == 2)
    for keeper in keepers:
        keeper.look()
    checks.release.set()
    for _ in range(6):
        for keeper in keepers:
            place.look(keeper)

    assert checks.most == 2
    assert value(place.database, "SELECT count(*) FROM runs WHERE state = 'queued'") == 6
