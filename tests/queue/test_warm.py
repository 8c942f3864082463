"""Threads that are warm before their first message."""

import threading
from collections.abc import Callable

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from pidispatch.errors import EngineUnavailable
from pidispatch.queue.boot import WarmThreads
from tests.support.patience import eventually


def a_broker(warm: Callable[[], object]) -> StubBroker:
    return StubBroker(middleware=[WarmThreads(warm)])


def test_each_thread_warms_itself_once():
    warmed = []
    broker = a_broker(lambda: warmed.append(threading.get_ident()))
    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=3)

    worker.start()
    try:
        eventually(lambda: len(warmed) == 3)
    finally:
        worker.stop()

    assert len(set(warmed)) == 3


@pytest.mark.parametrize("error", [EngineUnavailable("down"), RuntimeError("broken")])
def test_a_thread_that_cannot_warm_itself_still_works(error):
    def warm():
        raise error

    broker = a_broker(warm)
    done = threading.Event()
    actor = dramatiq.actor(done.set, broker=broker, actor_name="act")
    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=1)

    worker.start()
    try:
        actor.send()
        assert done.wait(10)
    finally:
        worker.stop()
