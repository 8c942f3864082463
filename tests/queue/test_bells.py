"""Bells over a real Valkey: they wake at once, a lost one harms nothing, and an outage is one error."""

import threading
import time

import dramatiq
import pytest

from pidispatch.errors import QueueUnavailable
from pidispatch.queue.bells import FIRST, LAST, RedisBell, ends_of, queue_of
from pidispatch.queue.boot import PrefetchThreads
from pidispatch.queue.broker import make_broker
from pidispatch.queue.server import check_redis
from tests.support.patience import eventually


@pytest.fixture
def broker(redis_url):
    broker = make_broker(redis_url, middleware=[PrefetchThreads()])
    yield broker
    broker.close()
    broker.client.close()


def test_a_bell_wakes_a_sleeping_worker_and_is_heard_once(broker):
    heard = []
    ring = threading.Semaphore(0)

    @dramatiq.actor(broker=broker, queue_name=queue_of("h1"), actor_name="start")
    def start():
        heard.append(time.monotonic())
        ring.release()

    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    try:
        assert worker.queue_prefetch == 2
        bell = RedisBell(broker)
        bell.ring_start("h1", 3)
        for _ in range(3):
            assert ring.acquire(timeout=10)
        assert bell.pending("h1") == 0
        assert len(heard) == 3
    finally:
        worker.stop()


def test_a_finish_bell_names_its_run(broker):
    got = []
    done = threading.Event()

    @dramatiq.actor(broker=broker, queue_name=ends_of("h1"), actor_name="finish")
    def finish(run_id):
        got.append(run_id)
        done.set()

    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    try:
        RedisBell(broker).ring_finish("h1", 42)
        assert done.wait(10)
        assert got == [42]
    finally:
        worker.stop()


@pytest.mark.parametrize("threads", [2, 4])
def test_an_end_waits_neither_behind_starts_nor_for_those_that_hang(broker, threads):
    hanging, let_go = threading.Semaphore(0), threading.Event()
    ended = threading.Semaphore(0)

    @dramatiq.actor(broker=broker, queue_name=queue_of("h1"), actor_name="start", priority=LAST)
    def start():
        hanging.release()
        let_go.wait(60)

    @dramatiq.actor(broker=broker, queue_name=ends_of("h1"), actor_name="finish", priority=FIRST)
    def finish(_run_id):
        ended.release()

    bell = RedisBell(broker)
    bell.ring_start("h1", 2_000)
    worker = dramatiq.Worker(broker, worker_threads=threads)
    worker.start()
    try:
        for _ in range(threads - 1):
            assert hanging.acquire(timeout=60)
        for run_id in range(20):
            bell.ring_finish("h1", run_id)
        for _ in range(20):
            assert ended.acquire(timeout=60)
        assert not hanging.acquire(blocking=False)
        assert not let_go.is_set()
        assert bell.pending("h1") >= 2_000 - threads
    finally:
        let_go.set()
        worker.stop(timeout=1_000)


def test_with_one_thread_an_end_goes_before_the_starts_that_were_taken(broker):
    heard, first, go_on = [], threading.Event(), threading.Event()
    done = threading.Event()

    @dramatiq.actor(broker=broker, queue_name=queue_of("h1"), actor_name="start", priority=LAST)
    def start():
        heard.append("start")
        first.set()
        go_on.wait(60)

    @dramatiq.actor(broker=broker, queue_name=ends_of("h1"), actor_name="finish", priority=FIRST)
    def finish(_run_id):
        heard.append("finish")
        done.set()

    bell = RedisBell(broker)
    bell.ring_start("h1", 3)
    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    try:
        assert first.wait(60)
        bell.ring_finish("h1", 7)
        assert eventually(lambda: worker.work_queue.qsize() >= 1)
        go_on.set()
        assert done.wait(60)
        assert heard.index("finish") <= 2
    finally:
        worker.stop()


def test_bells_of_another_host_are_not_heard(broker):
    RedisBell(broker).ring_start("h2")

    assert RedisBell(broker).pending("h2") == 1
    assert RedisBell(broker).pending("h1") == 0


def test_a_redis_that_does_not_answer_is_one_error_of_ours():
    broker = make_broker("unix:///nonexistent/valkey.sock")
    with pytest.raises(QueueUnavailable):
        RedisBell(broker).ring_start("h1")
    with pytest.raises(QueueUnavailable):
        check_redis("unix:///nonexistent/valkey.sock")


def test_our_own_valkey_has_nothing_to_complain_about(redis_url):
    assert check_redis(redis_url) == []
