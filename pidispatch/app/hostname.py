"""Let a worker begin under its host's name only where no other machine lives under it."""

import time
from collections.abc import Callable, Sequence

import structlog

from pidispatch.app.installation import Installation
from pidispatch.config import Settings
from pidispatch.domain.health.hostidentity import Contender, Identity
from pidispatch.errors import BoxFault, ConfigurationRefused, EngineUnavailable
from pidispatch.ports import Images
from pidispatch.services.placemark import place_of
from pidispatch.store.hosts.hosts import SILENT_SECONDS, Hosts

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5


class HostNameTaken(ConfigurationRefused):
    """Another machine, or another installation on this one, lives under the name of this host."""

    def __init__(self, name: str, mine: Identity, others: Sequence[Contender]) -> None:
        heard = ", ".join(
            f"{each.worker} ({each.identity}), heard {each.heard:.0f} s ago" for each in others[:3]
        )
        problem = (
            f"PI_WORKER_NAME: another machine works under the host name {name!r}: {heard}; here it would be {mine}."
            " Give each machine a PI_WORKER_NAME of its own. Where the other is gone for good, this one may start"
            f" once it has been silent for {SILENT_SECONDS} s"
        )
        super().__init__([problem])


def identity_of(settings: Settings, images: Images) -> Identity:
    """An engine that does not answer yet is told of later, by a heartbeat."""
    try:
        engine_id: str | None = images.engine_id()
    except (EngineUnavailable, BoxFault) as error:
        log.warning("engine_unreachable", problem=str(error))
        engine_id = None
    return Identity(engine_id, place_of(settings.run_dir))


def await_host_name(here: Installation) -> None:
    """Return when nobody else lives under the name: at once, but for a machine that has just been restarted.

    Raises HostNameTaken as soon as another has given a new sign of life, DatabaseUnavailable.
    """
    _await(here, identity_of(here.settings, here.runtime().images))


def await_place(here: Installation) -> None:
    """The same for a process that has no way to the engine. Raises as `await_host_name`."""
    _await(here, Identity(None, place_of(here.settings.run_dir)))


def _await(here: Installation, identity: Identity) -> None:
    hosts = Hosts(here.database, host=here.host)
    try:
        wait_for_silence(here.host, identity, lambda: hosts.contenders(identity))
    except HostNameTaken:
        hosts.refuse(identity)
        raise


def wait_for_silence(
    name: str,
    identity: Identity,
    others: Callable[[], Sequence[Contender]],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """A heartbeat that moves is another machine's; one that only grows old was this machine's own, before its boot."""
    heard: dict[str, float] = {}
    while found := others():
        if heard and any(each.heard < heard.get(each.worker, each.heard + 1) for each in found):
            raise HostNameTaken(name, identity, found)
        heard = {each.worker: each.heard for each in found}
        sleep(LOOK_SECONDS)
