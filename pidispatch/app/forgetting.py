"""Give up a host that is gone for good."""

from collections.abc import Sequence

from pidispatch.app.actor import actor
from pidispatch.app.databases import opened
from pidispatch.config import Settings
from pidispatch.store.hosts import forgetting
from pidispatch.store.hosts.forgetting import Silence

__all__ = ["Silence", "forget", "look_at"]


def look_at(settings: Settings, host: str) -> Silence:
    """What would be lost. Raises NoSuchHost, HostAlive, and as `opened`."""
    with opened(settings) as database:
        return forgetting.silent_host(database, host)


def forget(settings: Settings, host: str) -> Sequence[str]:
    """The public ids of the runs that are lost now. Raises as `look_at`."""
    with opened(settings) as database:
        return forgetting.forget_host(database, host, actor=actor(settings))
