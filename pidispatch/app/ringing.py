"""Ring bells from a command: they only make quick what the rows have decided."""

from collections.abc import Callable

from pidispatch.app.places import addresses
from pidispatch.config import Settings
from pidispatch.errors import ConfigurationRefused, QueueUnavailable
from pidispatch.queue.bells import RedisBell
from pidispatch.queue.broker import INTERACTIVE, make_broker


def ring(settings: Settings, act: Callable[[RedisBell], object]) -> bool:
    """False when Redis did not answer within 2 s: workers find out by themselves, within seconds."""
    try:
        broker = make_broker(addresses(settings).redis, within=INTERACTIVE)
    except ConfigurationRefused:
        return False
    try:
        act(RedisBell(broker))
    except QueueUnavailable:
        return False
    finally:
        broker.close()
    return True
