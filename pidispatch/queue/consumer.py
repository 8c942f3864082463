"""Sleep in BLPOP until a bell rings, where stock dramatiq polls with a back-off of up to a second."""

import time
from typing import Any

import redis
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer
from dramatiq.common import dq_name
from dramatiq.errors import ConnectionClosed
from dramatiq.message import Message

WAKES_KEPT = 64  # more tokens than threads would only cost empty fetches


def wake(broker: RedisBroker, queue_name: str) -> None:
    """Leave a token for whoever sleeps. It follows the message, so a sleeper that takes it finds the message."""
    key = _key(broker, queue_name)
    pipeline = broker.client.pipeline(transaction=False)
    pipeline.rpush(key, 1)
    pipeline.ltrim(key, -WAKES_KEPT, -1)
    pipeline.execute()


class WokenConsumer(_RedisConsumer):
    """Fetch; with nothing there, wait for a token and fetch again. Delay queues keep the stock behaviour.

    Once its broker is deaf it takes nothing any more, and puts back what it took and did not hand on.
    """

    def __next__(self) -> Any:
        try:
            if self.broker.deaf:
                return self._leave_the_rest()
            if self.queue_name == dq_name(self.queue_name) or self.message_cache:
                return super().__next__()
            if self.outstanding_message_count >= self.prefetch:
                return super().__next__()  # every thread is busy: the stock back-off is right
            if not self._fetch():
                token = self.broker.client.blpop(
                    [_key(self.broker, self.queue_name)], timeout=self.timeout / 1000
                )
                if self.broker.deaf:
                    if token is not None:
                        wake(self.broker, self.queue_name)
                    return None
                self._fetch()
            return super().__next__() if self.message_cache else None
        except redis.TimeoutError as error:  # dramatiq knows only ConnectionError
            raise ConnectionClosed(error) from None
        except redis.ConnectionError as error:
            raise ConnectionClosed(error) from None

    def _leave_the_rest(self) -> None:
        if self.message_cache:
            self.requeue([Message.decode(data) for data in self.message_cache])
            self.message_cache = []
            wake(self.broker, self.queue_name)
        time.sleep(self.timeout / 1000)

    def _fetch(self) -> bool:
        self.message_cache = self.broker.do_fetch(
            self.queue_name, self.prefetch - self.outstanding_message_count
        )
        return bool(self.message_cache)


def _key(broker: RedisBroker, queue_name: str) -> str:
    return f"{broker.namespace}:{queue_name}.wake"
