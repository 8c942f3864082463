"""Show or change the zone of the schedules of this host that name none."""

from dataclasses import dataclass
from datetime import datetime

from pidispatch.app.installation import Installation
from pidispatch.config.environment import clock_zone
from pidispatch.domain.limits.pausesfile import zone_name
from pidispatch.errors import ConfigurationRefused
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


def host_zone() -> str:
    """The zone of this host's clock: TZ, else what /etc/localtime links to, else UTC."""
    named, linked = clock_zone()
    return zone_name(named) or zone_name(linked) or "UTC"


def shown(here: Installation, *, before: str | None = None) -> HostZone:
    """Raises as `Installation.database`."""
    settled = settled_zones(here.database).get(here.host)
    if settled is None:
        return HostZone(here.host, None, None, None, host_zone())
    return HostZone(settled.host, settled.zone, settled.settled_at, settled.settled_by, host_zone(), before)


def change(here: Installation, name: str) -> HostZone:
    """Workers follow within half a minute. Raises ConfigurationRefused for what is no zone, and as `shown`."""
    zone = zone_name(name)
    if zone is None:
        raise ConfigurationRefused([f"{name!r} is no zone of the IANA database, such as Europe/Berlin"])
    before = HostZones(here.database, host=here.host, by=here.actor).change(zone)
    return shown(here, before=None if before is None else before.zone)
