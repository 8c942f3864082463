"""Build the broker: Redis carries bells only, so nothing is retried, delayed or aged in it."""

from collections.abc import Sequence
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage, Middleware
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from pidispatch.domain.health import RedisFacts
from pidispatch.errors import QueueUnavailable
from pidispatch.queue.consumer import WokenConsumer, wake

SOCKET_TIMEOUT = 15  # seconds; above every blocking wait, since redis-py 8 would stop at 5
NAMESPACE = "pidispatch"


class WokenBroker(RedisBroker):
    """A Redis broker whose consumers sleep in BLPOP and wake the moment something is enqueued."""

    deaf = False

    def hear_no_more(self) -> None:
        """Take no message any more: what is rung from now on is for others. It can still ring."""
        self.deaf = True

    @property
    def consumer_class(self) -> type[WokenConsumer]:
        return WokenConsumer

    def enqueue(self, message: dramatiq.Message[Any], *, delay: int | None = None) -> dramatiq.Message[Any]:
        enqueued = super().enqueue(message, delay=delay)
        wake(self, message.queue_name)
        return enqueued


def make_client(url: str, *, timeout: float = SOCKET_TIMEOUT) -> redis.Redis:
    """A client that sends each command once: a retry after a lost reply would ring a bell twice."""
    client: redis.Redis = redis.Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=min(5, timeout),
        retry=Retry(NoBackoff(), 0),
        health_check_interval=30,
    )
    return client


def make_broker(
    url: str, *, middleware: Sequence[Middleware] = (), namespace: str = NAMESPACE, heartbeat_ms: int = 60_000
) -> WokenBroker:
    """An explicit middleware list: dramatiq's defaults retry and interrupt, and started one job five times."""
    return WokenBroker(
        client=make_client(url),
        namespace=namespace,
        middleware=[CurrentMessage(), *middleware],
        maintenance_chance=1_000_000,
        heartbeat_timeout=heartbeat_ms,
    )


def check_redis(url: str) -> list[str]:
    """Say what is wrong with a Redis for this use. Raises QueueUnavailable when it does not answer."""
    facts = redis_facts(url)
    problems = []
    if facts.policy != "noeviction":
        problems.append(f"Redis evicts ({facts.policy}): set `maxmemory-policy noeviction`")
    if not facts.append_only:
        problems.append("Redis keeps no append-only file: set `appendonly yes`")
    return problems


def redis_facts(url: str, *, timeout: float = SOCKET_TIMEOUT) -> RedisFacts:
    """Whether it evicts, and whether it keeps a file. Raises QueueUnavailable when it does not answer in time."""
    client = make_client(url, timeout=timeout)
    try:
        memory = client.info("memory")
        persistence = client.info("persistence")
    except RedisError as error:
        raise QueueUnavailable(str(error)) from error
    finally:
        client.close()
    return RedisFacts(
        policy=str(memory.get("maxmemory_policy")), append_only=bool(persistence.get("aof_enabled"))
    )
