"""Look at Redis as a person waits for it: what of it is red."""

from pidispatch.app.places import addresses
from pidispatch.config import Settings
from pidispatch.domain.health.health import Fault, RedisFacts, redis_faults
from pidispatch.errors import ConfigurationRefused, QueueUnavailable
from pidispatch.queue.broker import INTERACTIVE, redis_facts


def redis_address(settings: Settings) -> str | None:
    """None for one who only reads: that needs the database alone."""
    try:
        return addresses(settings).redis
    except ConfigurationRefused:
        return None


def facts_of(url: str) -> RedisFacts:
    """Never raises: that it does not answer is a fact too. Takes 2 s at most."""
    try:
        return redis_facts(url, within=INTERACTIVE)
    except QueueUnavailable as error:
        return RedisFacts(problem=str(error))


def red_of_redis(settings: Settings) -> tuple[Fault, ...]:
    """Why no bell may be heard; nothing where no Redis is named."""
    url = redis_address(settings)
    return () if url is None else tuple(redis_faults(facts_of(url)))
