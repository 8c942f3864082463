"""A worker that drains hears no bells: what rings from then on, and what it had taken, is for the others at once."""

import threading
import time
from contextlib import contextmanager

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from pidispatch.domain.runs.run import Claim
from pidispatch.queue.admission import Admission, take_claim
from pidispatch.queue.bells import FINISH, START, RedisBell, ends_of, queue_of
from pidispatch.queue.boot import PrefetchThreads
from pidispatch.queue.broker import make_broker
from tests.support.patience import eventually


class House:
    """One worker process of host h1, as far as bells go: `started` and `finished` say when it heard one."""

    def __init__(self, redis_url):
        self.started, self.finished = [], []
        self.at_work, self.release = threading.Event(), threading.Event()
        self.release.set()
        self.admission = Admission(self)
        self.broker = make_broker(redis_url, middleware=[PrefetchThreads(), self.admission])
        dramatiq.actor(self._start, broker=self.broker, queue_name=queue_of("h1"), actor_name=START)
        dramatiq.actor(self.finished.append, broker=self.broker, queue_name=ends_of("h1"), actor_name=FINISH)
        self.worker = dramatiq.Worker(self.broker, worker_threads=3, worker_timeout=500)
        self.bell = RedisBell(self.broker)

    def admit(self):
        return Claim(1, "local-1", 1, 1)

    def _start(self):
        take_claim()
        self.started.append(time.monotonic())
        self.at_work.set()
        self.release.wait(20)

    def drain(self):
        """What SIGTERM does at first; its threads go on."""
        self.broker.hear_no_more()
        self.admission.close()

    def stop(self):
        self.release.set()
        self.worker.stop()
        self.broker.close()
        self.broker.client.close()


@pytest.fixture
def houses(redis_url):
    made = []

    def make():
        made.append(House(redis_url))
        return made[-1]

    yield make
    for house in made:
        house.stop()


@contextmanager
def paused(house):
    """Its threads take nothing from its own queue: what it fetched lies there."""
    for thread in house.worker.workers:
        thread.pause()
    for thread in house.worker.workers:
        assert thread.paused_event.wait(5)
    yield
    for thread in house.worker.workers:
        thread.resume()


def test_bells_that_ring_while_a_worker_drains_are_all_for_the_other(houses):
    leaving, other = houses(), houses()
    leaving.worker.start()
    other.worker.start()
    leaving.drain()

    for number in range(1, 9):
        rang = time.monotonic()
        leaving.bell.ring_start("h1")
        assert eventually(lambda wanted=number: len(other.started) == wanted, within=5)
        assert other.started[-1] - rang < 1
        time.sleep(0.1)

    assert leaving.started == []


def test_bells_that_a_draining_worker_had_taken_ring_again_for_the_other(houses):
    leaving, other = houses(), houses()
    leaving.worker.start()
    with paused(leaving):
        leaving.bell.ring_start("h1", 2)
        assert eventually(lambda: leaving.bell.pending("h1") == 0)
        leaving.drain()
        other.worker.start()
    drained = time.monotonic()

    assert eventually(lambda: len(other.started) == 2, within=5)

    assert other.started[-1] - drained < 1
    assert leaving.started == []


def test_what_a_draining_worker_fetched_and_did_not_hand_on_is_put_back(houses):
    leaving, other = houses(), houses()
    leaving.bell.ring_start("h1", 2)
    consumer = leaving.broker.consume(queue_of("h1"), prefetch=4, timeout=10)
    assert next(consumer) is not None
    assert len(consumer.message_cache) == 1

    leaving.drain()
    assert next(consumer) is None

    assert other.bell.pending("h1") == 1
    assert next(consumer) is None
    other.worker.start()
    assert eventually(lambda: len(other.started) == 1, within=5)


def test_a_draining_worker_still_ends_what_it_has_in_hand(houses):
    leaving = houses()
    leaving.release.clear()
    leaving.worker.start()
    leaving.bell.ring_start("h1")
    assert leaving.at_work.wait(5)
    with paused_but_one(leaving):
        leaving.bell.ring_finish("h1", 42)
        ends = f"{leaving.broker.namespace}:{ends_of('h1')}"
        assert eventually(lambda: leaving.broker.client.llen(ends) == 0)
        leaving.drain()

    assert eventually(lambda: leaving.finished == [42])


@contextmanager
def paused_but_one(house):
    """The idle threads are paused; the other is at work."""
    for thread in house.worker.workers:
        thread.pause()
    time.sleep(0.6)  # longer than an idle thread sleeps
    yield
    for thread in house.worker.workers:
        thread.resume()


def test_a_bell_that_cannot_be_passed_on_starts_nothing_all_the_same():
    admission = Admission(None)
    broker = StubBroker(middleware=[admission])
    started = []
    start = dramatiq.actor(lambda: started.append(1), broker=broker, queue_name="q", actor_name=START)
    broker.emit_after("process_boot")
    start.send()
    admission.close()
    broker.enqueue = None
    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=1)
    worker.start()
    try:
        broker.join("q", timeout=5000)
        worker.join()
    finally:
        worker.stop()

    assert started == []
