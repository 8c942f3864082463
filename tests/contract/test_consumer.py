"""Our consumer is a subclass of one that dramatiq does not publish: it keeps what dramatiq's worker counts on, as the stock one does."""

import secrets

import dramatiq
import pytest
from dramatiq.brokers.redis import RedisBroker

from pidispatch.queue.broker import WokenBroker
from pidispatch.queue.consumer import WokenConsumer
from pidispatch.queue.server import make_client

QUEUE = "ends.contract"


@pytest.fixture(params=[RedisBroker, WokenBroker], ids=["stock", "ours"])
def broker(request, redis_url):
    made = request.param(client=make_client(redis_url), namespace=secrets.token_hex(4), middleware=[])
    made.declare_queue(QUEUE)
    yield made
    made.close()
    made.client.close()


def consumer_of(broker, prefetch=2):
    return broker.consume(QUEUE, prefetch=prefetch, timeout=10)


def rung(broker, *words):
    for word in words:
        broker.enqueue(
            dramatiq.Message(queue_name=QUEUE, actor_name="finish", args=(word,), kwargs={}, options={})
        )


def waiting(broker):
    return broker.client.llen(f"{broker.namespace}:{QUEUE}")


def taken(consumer, times):
    found = [next(consumer) for _ in range(times)]
    return [None if each is None else each.args[0] for each in found], found


def test_the_broker_makes_it(redis_url):
    made = WokenBroker(client=make_client(redis_url), middleware=[])

    assert made.consumer_class is WokenConsumer
    made.client.close()


def test_it_takes_in_order_and_no_more_than_it_may_until_one_is_done(broker):
    rung(broker, "a", "b", "c")
    consumer = consumer_of(broker)

    words, found = taken(consumer, 3)
    assert words == ["a", "b", None]
    assert (consumer.outstanding_message_count, waiting(broker)) == (2, 1)

    consumer.ack(found[0])
    assert taken(consumer, 1)[0] == ["c"]


def test_with_nothing_there_it_says_so(broker):
    assert next(consumer_of(broker)) is None


@pytest.mark.parametrize("end", ["ack", "nack"])
def test_what_is_done_or_given_up_comes_to_nobody_again(broker, end):
    rung(broker, "a")
    consumer = consumer_of(broker)
    (found,) = taken(consumer, 1)[1]

    getattr(consumer, end)(found)

    assert consumer.outstanding_message_count == 0
    assert next(consumer) is None
    assert next(consumer_of(broker)) is None


def test_what_is_put_back_is_for_another(broker):
    rung(broker, "a", "b")
    consumer = consumer_of(broker)
    found = taken(consumer, 2)[1]

    consumer.requeue(found)

    assert sorted(taken(consumer_of(broker), 2)[0]) == ["a", "b"]


def test_a_delayed_queue_is_consumed_as_any(broker):
    broker.enqueue(
        dramatiq.Message(queue_name=QUEUE, actor_name="finish", args=("a",), kwargs={}, options={}), delay=1
    )
    (delayed,) = [name for name in broker.get_declared_delay_queues() if name.startswith(QUEUE)]

    found = next(broker.consume(delayed, prefetch=1, timeout=10))

    assert found.args == ("a",)
