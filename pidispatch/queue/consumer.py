"""Sleep in BLPOP until a bell rings, where stock dramatiq polls with a back-off of up to a second."""

import threading
import time
from typing import Any

import structlog
from dramatiq.brokers.redis import RedisBroker, _RedisConsumer
from dramatiq.common import dq_name
from dramatiq.errors import ConnectionClosed
from dramatiq.message import Message
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

log = structlog.get_logger(__name__)

WAKES_KEPT = 64  # more tokens than threads would only cost empty fetches
TROUBLE_SECONDS = 1.0  # until Redis is asked again after a fault


def wake(broker: RedisBroker, queue_name: str) -> None:
    """Leave a token for whoever sleeps. It follows the message, so a sleeper that takes it finds the message."""
    key = _key(broker, queue_name)
    pipeline = broker.client.pipeline(transaction=False)
    pipeline.rpush(key, 1)
    pipeline.ltrim(key, -WAKES_KEPT, -1)
    pipeline.execute()


class Trouble:
    """Tell of a Redis that cannot be used once, and once more when it can; all consumers of a process share one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: str | None = None

    def failed(self, error: RedisError) -> None:
        with self._lock:
            kind = type(error).__name__
            if kind != self._told:
                log.warning("redis_unusable", problem=str(error) or kind)
            self._told = kind

    def passed(self) -> None:
        if self._told is None:
            return
        with self._lock:
            self._told = None
        log.info("redis_usable_again")


class WokenConsumer(_RedisConsumer):
    """Fetch; with nothing there, wait for a token and fetch again. Delay queues keep the stock behaviour.

    Once its broker is deaf it takes nothing any more, and puts back what it took and did not hand on. A Redis that is
    away, or takes no writes, is asked again after a second: stock dramatiq would end the consumer and log a traceback
    each time, and start what it has in hand anew.
    """

    def __next__(self) -> Any:
        try:
            found = self._take()
        except RedisError as error:
            self.broker.trouble.failed(error)
            time.sleep(TROUBLE_SECONDS)
            return None
        self.broker.trouble.passed()
        return found

    def _take(self) -> Any:
        if self.broker.deaf:
            return self._leave_the_rest()
        if self.queue_name == dq_name(self.queue_name) or self.message_cache:
            return self._stock()
        if self.outstanding_message_count >= self.prefetch:
            return self._stock()  # every thread is busy: the stock back-off is right
        if not self._fetch():
            token = self.broker.client.blpop(
                [_key(self.broker, self.queue_name)], timeout=self.timeout / 1000
            )
            if self.broker.deaf:
                if token is not None:
                    wake(self.broker, self.queue_name)
                return None
            self._fetch()
        return self._stock() if self.message_cache else None

    def _stock(self) -> Any:
        try:
            return super().__next__()
        except ConnectionClosed as error:  # of a connection error of Redis, which it hides
            raise RedisConnectionError(str(error)) from error

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
