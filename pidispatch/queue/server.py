"""Ask the Redis server how it is. Apart from the broker, so that who only asks loads no dramatiq."""

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from pidispatch.domain.health.health import RedisFacts
from pidispatch.errors import QueueUnavailable

SOCKET_TIMEOUT = 15  # seconds; above every blocking wait, since redis-py 8 would stop at 5
INTERACTIVE = 2.0  # seconds that a person waits for a Redis that says nothing
NAMESPACE = "pidispatch"
WRITTEN_MS = 60_000  # how long the key stays that shows whether writes are taken
UNCHECKED = (
    "whether Redis evicts, and keeps an append-only file, could not be checked: this user may not ask INFO; allow it"
    " (`ACL SETUSER … +info`), or see that `maxmemory-policy noeviction` and `appendonly yes` are set"
)


def make_client(url: str, *, within: float | None = None) -> redis.Redis:
    """A client that sends each command once: a retry after a lost reply would ring a bell twice.

    `within`: who asks waits so many seconds at most, half of them for the connection.
    """
    client: redis.Redis = redis.Redis.from_url(
        url,
        socket_timeout=SOCKET_TIMEOUT if within is None else within / 2,
        socket_connect_timeout=5 if within is None else within / 2,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=30,
    )
    return client


def check_redis(url: str) -> list[str]:
    """Say what is wrong with a Redis for this use. Raises QueueUnavailable when it does not answer."""
    facts = redis_facts(url)
    problems = []
    if facts.unwritable is not None:
        problems.append(f"Redis takes no bells: {facts.unwritable}")
    if facts.policy not in {"noeviction", None}:
        problems.append(f"Redis evicts ({facts.policy}): set `maxmemory-policy noeviction`")
    if facts.append_only is False:
        problems.append("Redis keeps no append-only file: set `appendonly yes`")
    if None in {facts.policy, facts.append_only}:
        problems.append(UNCHECKED)
    return problems


def redis_facts(url: str, *, within: float | None = None) -> RedisFacts:
    """Whether it takes a write, whether it evicts, whether it keeps a file. Raises QueueUnavailable when it does not answer."""
    client = make_client(url, within=within)
    try:
        asked = client.pipeline(transaction=False)
        asked.set(f"{NAMESPACE}:written", 1, px=WRITTEN_MS)
        for section in ("memory", "persistence", "cluster"):
            asked.info(section)
        written, memory, persistence, cluster = asked.execute(raise_on_error=False)
    except ResponseError as error:  # with MISCONF it refuses the PING of the connect already
        return RedisFacts(unwritable=str(error), policy=None, append_only=None)
    except (RedisError, UnicodeError) as error:
        raise QueueUnavailable(str(error)) from error
    finally:
        client.close()
    unwritable = f"{written}" if isinstance(written, Exception) else None
    if _word(cluster, "cluster_enabled"):
        unwritable = "it is a cluster, whose keys lie on several servers: name a Redis that stands alone"
    policy, append_only = _word(memory, "maxmemory_policy"), _word(persistence, "aof_enabled")
    return RedisFacts(
        unwritable=unwritable,
        policy=None if policy is None else str(policy),
        append_only=None if append_only is None else bool(append_only),
    )


def _word(section: object, name: str) -> object:
    """None for what this user may not ask, or a server does not tell."""
    return section.get(name) if isinstance(section, dict) else None
