"""Show or change the zone of the schedules of this host that name none."""

from dataclasses import dataclass
from datetime import datetime

from pidispatch.app.actor import actor
from pidispatch.app.databases import opened
from pidispatch.app.places import host_zone
from pidispatch.config import Settings
from pidispatch.domain.limits.pausesfile import zone_name
from pidispatch.errors import ConfigurationRefused
from pidispatch.store.database import Database
from pidispatch.store.hosts.zones import HostZones, settled_zones


@dataclass(frozen=True, slots=True)
class HostZone:
    """What is settled; `zone` is None while nothing is. `clock` is the zone of this process, `before` what a change replaced."""

    host: str
    zone: str | None
    settled_at: datetime | None
    settled_by: str | None
    clock: str
    before: str | None = None


def shown(settings: Settings) -> HostZone:
    """Raises as `opened`."""
    with opened(settings) as database:
        return _found(settings, database)


def change(settings: Settings, name: str) -> HostZone:
    """Workers follow within half a minute. Raises ConfigurationRefused for what is no zone, and as `opened`."""
    zone = zone_name(name)
    if zone is None:
        raise ConfigurationRefused([f"{name!r} is no zone of the IANA database, such as Europe/Berlin"])
    with opened(settings) as database:
        before = HostZones(database, host=settings.worker_name, by=actor(settings)).change(zone)
        return _found(settings, database, before=None if before is None else before.zone)


def _found(settings: Settings, database: Database, *, before: str | None = None) -> HostZone:
    settled = settled_zones(database).get(settings.worker_name)
    if settled is None:
        return HostZone(settings.worker_name, None, None, None, host_zone())
    return HostZone(settled.host, settled.zone, settled.settled_at, settled.settled_by, host_zone(), before)
