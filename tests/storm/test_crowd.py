"""Ten thousand runs that cannot start cost the one that can next to nothing."""

import os
import statistics
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from pidispatch.domain.box.facts import LocalFolder
from pidispatch.domain.limits.policy import ScopeCaps
from pidispatch.domain.runs.reconcile import Departure
from pidispatch.queue.bells import RedisBell
from pidispatch.queue.broker import make_broker
from tests.flows.site import Site
from tests.store.builders import HOST, a_run, value
from tests.storm.crowd import a_crowd
from tests.support.patience import slowness

CROWD = 10_000
SWEEP_BUDGET = 0.040  # seconds: 2 % of a core at one look every two seconds
MEMORY = 5 << 20


def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def numbered_folder(path):
    number = int(path.rsplit(b"/", 1)[-1].lstrip(b"r"))
    return LocalFolder(path.decode(), 1, number, 1000, 1000, "x")


@pytest.fixture(params=["one folder", "one scope of one run at a time"])
def crowded(request, database):
    """A run occupies the place that ten thousand others wait for; all of them have waited for hours."""
    site = Site(database, capacity=3)
    site.policy = replace(site.policy, daily_cap=1_000_000, by_scope={"folder:busy": ScopeCaps(concurrent=1)})
    site.gate._checks._open_folder = numbered_folder
    site.gate.admit()
    if request.param == "one folder":
        site.policy = replace(site.policy, by_scope={})
    folder = "'/r/1'" if request.param == "one folder" else "'/r/' || n"
    mutex = f"'inode:h1:1:' || substr({folder}, 4)"
    a_crowd(database, runs=CROWD, scope="'folder:busy'", mutex=mutex, folder=folder, waited=9000)
    assert site.gate.admit() is not None
    return site


def test_one_that_may_start_elsewhere_starts_within_a_second(crowded):
    elsewhere = a_run(crowded.database, folder="/repos/r90001")
    before = memory()
    began = time.perf_counter()

    claim = crowded.gate.admit()

    took = time.perf_counter() - began
    print(f"started in {took * 1000:.0f} ms among {CROWD}")
    assert claim is not None
    assert claim.run_id == elsewhere
    assert took < 1.0
    assert abs(memory() - before) < MEMORY


def test_no_bell_hangs_for_those_that_cannot_start(crowded):
    crowded.gate.admit()  # nothing may start: this look tells the scope's bound to all others

    assert crowded.hosts.bells_due() == 0
    a_run(crowded.database, folder="/repos/r90001")
    assert crowded.hosts.bells_due() == 1


def test_looking_every_two_seconds_costs_less_than_a_fiftieth_of_a_core(crowded):
    """Time on the wall: the process's own work and the database's together."""
    before, times, slow = memory(), [], []
    for _ in range(21):
        began = time.perf_counter()
        crowded.look()
        times.append(time.perf_counter() - began)
        slow.append(slowness())

    print(f"a sweep: median {statistics.median(times) * 1000:.1f} ms")
    assert statistics.median(times) < SWEEP_BUDGET * statistics.median(slow)
    assert abs(memory() - before) < MEMORY


def test_the_whole_crowd_is_not_looked_at_one_by_one(crowded):
    assert crowded.gate.admit() is None

    deferred = value(crowded.database, "SELECT count(*) FROM runs WHERE state = 'deferred'")
    assert deferred <= 1


def test_the_next_of_the_crowd_is_due_as_soon_as_its_place_is_free(crowded):
    assert crowded.gate.admit() is None
    with crowded.database.transaction() as connection:
        holder = connection.execute(text("SELECT id FROM runs WHERE state = 'admitted'")).scalar_one()
    crowded.finisher.take_back(
        crowded.runs.occupant(holder), Departure.UNKNOWN
    )  # never started: it is queued again, for later

    claim = crowded.gate.admit()
    assert claim is not None
    assert claim.run_id != holder


def test_ten_thousand_that_wait_leave_next_to_nothing_in_redis(database, redis_url):
    site = Site(database, capacity=3)
    a_crowd(database, runs=CROWD, scope="'folder:' || n", mutex="'inode:h1:1:' || n", folder="'/r/' || n")
    broker = make_broker(redis_url)
    site.reconciler._bell = RedisBell(broker)
    before = broker.client.info("memory")["used_memory_dataset"]

    for _ in range(20):  # nobody hears a bell meanwhile
        site.look()

    assert RedisBell(broker).pending(HOST) == site.policy.concurrency + 1
    grown = broker.client.info("memory")["used_memory_dataset"] - before
    print(f"{CROWD} waiting runs: {grown} bytes in Redis")
    assert grown < 1 << 20
    broker.close()
