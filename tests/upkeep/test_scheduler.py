"""The scheduler: punctual, quick to see an edit, and one of several."""

import threading
import time
from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.errors import DatabaseUnavailable, QueueUnavailable
from pidispatch.store.hosts.zones import HostZones
from pidispatch.upkeep.breakers import BreakerKeeper
from pidispatch.upkeep.scheduledruns import ScheduledRuns
from pidispatch.upkeep.scheduler import LOOK_AT_FILE, SYNC_AGAIN, Scheduler
from tests.store.builders import a_host, value
from tests.support.breaking import some_breakers
from tests.support.timed import HOST, Folders, an_entry, the_file, the_schedules


class Bells:
    def __init__(self):
        self.rung = []
        self.broken = False

    def ring_start(self, host, times=1):
        if self.broken:
            raise QueueUnavailable("away")
        self.rung.append((host, times))


class Place:
    """A scheduler whose file is a value, and whose clock can be moved."""

    def __init__(self, database):
        self.file = the_file()
        self.bells = Bells()
        self.folders = Folders()
        self.schedules = the_schedules(database, folders=self.folders)
        self.later = 0.0
        self.scheduler = Scheduler(
            host=HOST,
            host_zone="UTC",
            zones=HostZones(database, host=HOST, by="w1").zones,
            schedules=self.schedules,
            triggers=lambda: self.file,
            runs=ScheduledRuns(host=HOST, open_folder=self.folders),
            bell=self.bells,
            most_bells=4,
            count_endings=BreakerKeeper(some_breakers(database)).count,
            monotonic=lambda: time.monotonic() + self.later,
        )


@pytest.fixture
def place(database):
    a_host(database)
    return Place(database)


def overdue(database, seconds=0):
    with database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE schedules SET next_at = date_trunc('second', clock_timestamp()) - interval '1 s',"
                " planned_until = clock_timestamp() - interval '20 s'"
            )
        )


def test_without_a_file_nothing_is_planned_and_the_look_is_repeated(database, place):
    assert place.scheduler.look() == pytest.approx(LOOK_AT_FILE, abs=0.1)
    assert value(database, "SELECT count(*) FROM schedules") == 0


def test_what_is_due_is_rung_for_and_never_more_than_the_host_has_room(database, place):
    place.file = the_file(*(an_entry(f"s{n}", "* * * * * *", index=n) for n in range(9)))
    place.scheduler.look()
    overdue(database)
    place.later += 10

    place.scheduler.look()

    assert place.bells.rung == [(HOST, 4)]
    assert value(database, "SELECT count(*) FROM runs WHERE state = 'queued'") >= 9


def test_a_bell_that_cannot_be_rung_loses_nothing(database, place):
    place.file = the_file(an_entry(pattern="* * * * * *"))
    place.scheduler.look()
    overdue(database)
    place.bells.broken, place.later = True, 10

    place.scheduler.look()

    assert value(database, "SELECT count(*) > 0 FROM runs")


def test_an_edit_takes_effect_at_the_next_look(database, place):
    place.file = the_file(an_entry(), an_entry("other"))
    place.scheduler.look()
    place.file = the_file(an_entry("other", task="Another"))

    pause = place.scheduler.look()

    assert pause <= LOOK_AT_FILE
    assert value(database, "SELECT string_agg(id, ',') FROM schedules WHERE removed_at IS NULL") == "other"


def test_the_sleep_ends_with_the_instant(database, place):
    place.file = the_file(an_entry(pattern="* * * * * *"))
    place.scheduler.look()

    for _ in range(3):
        assert 0 <= place.scheduler.look() <= 1.01


def test_a_folder_that_comes_back_is_served_again_without_an_edit(database, place):
    place.folders.missing.add("/repos/nightly")
    place.file = the_file(an_entry())
    place.scheduler.look()
    assert not value(database, "SELECT served FROM schedules")
    place.folders.missing.clear()
    place.later = SYNC_AGAIN + 1

    place.scheduler.look()

    assert value(database, "SELECT served FROM schedules")


def test_a_fault_is_outlived(database, place, monkeypatch):
    calls = []
    stop, wake = threading.Event(), threading.Event()

    def look():
        calls.append(1)
        if len(calls) == 1:
            raise DatabaseUnavailable("away")
        if len(calls) == 2:
            raise ValueError("a fault of ours")
        stop.set()
        return 0.0

    monkeypatch.setattr(place.scheduler, "look", look)
    monkeypatch.setattr("pidispatch.upkeep.scheduler.TROUBLE", 0.01)
    place.scheduler.run(stop, wake)

    assert len(calls) == 3


def test_two_live_schedulers_start_each_second_once_and_on_time(database, database_url):
    a_host(database)
    places = [Place(database) for _ in range(2)]
    stop = threading.Event()
    threads = []
    for each in places:
        each.file = the_file(an_entry(pattern="* * * * * *"))
        threads.append(threading.Thread(target=each.scheduler.run, args=(stop, threading.Event())))
    for thread in threads:
        thread.start()
    until = time.monotonic() + 20
    while time.monotonic() < until and value(database, "SELECT count(*) FROM schedule_slots") < 3:
        time.sleep(0.1)
    stop.set()
    for thread in threads:
        thread.join(10)

    with database.transaction() as connection:
        found = connection.execute(
            text("SELECT planned_at, decided_at FROM schedule_slots ORDER BY planned_at")
        ).all()
    moments = [each.planned_at for each in found]
    assert len(found) >= 3
    assert moments == [moments[0] + timedelta(seconds=n) for n in range(len(found))]
    assert value(database, "SELECT count(*) FROM runs") == len(found)
    assert min(each.decided_at - each.planned_at for each in found) >= timedelta(0)
