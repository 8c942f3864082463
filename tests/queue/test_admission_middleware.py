"""The gate fails closed, whatever happens inside it."""

import dramatiq
import pytest
from dramatiq.brokers.stub import StubBroker

from pidispatch.domain.runs.run import Claim
from pidispatch.queue.admission import Admission, take_claim
from pidispatch.queue.bells import START

CLAIM = Claim(1, "local-1", 1, 1)


class AGate:
    """Answers what it is told to: a claim, None, or an error."""

    def __init__(self, answer):
        self.answer = answer

    def admit(self):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def run_one(answer, actor_name=START):
    broker = StubBroker(middleware=[Admission(AGate(answer))])
    broker.emit_after("process_boot")
    started = []

    @dramatiq.actor(broker=broker, queue_name="runs.h1", actor_name=actor_name)
    def start():
        started.append(take_claim() if actor_name == START else None)

    worker = dramatiq.Worker(broker, worker_timeout=20, worker_threads=1)
    worker.start()
    try:
        start.send()
        broker.join("runs.h1", timeout=5000)
        worker.join()
    finally:
        worker.stop()
    return started


def test_an_admitted_run_is_handed_to_the_actor():
    assert run_one(CLAIM) == [CLAIM]


def test_nothing_starts_when_the_gate_admits_nothing():
    assert run_one(None) == []


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyError("x"), TimeoutError(), MemoryError()])
def test_a_broken_gate_does_not_admit(error):
    assert run_one(error) == []


def test_other_actors_are_not_gated():
    assert run_one(RuntimeError("not asked"), actor_name="finish") == [None]


def test_a_claim_cannot_be_taken_without_an_admission():
    with pytest.raises(LookupError):
        take_claim()
