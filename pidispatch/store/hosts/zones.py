"""Settle the zone of each host's schedules that name none, once, whatever the clocks of its workers say later."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text

from pidispatch.domain.triggers.inforce import Zone, Zones
from pidispatch.store.audit import audit
from pidispatch.store.database import Database

SETTLE = text("""
INSERT INTO host_zones (host, zone, settled_by) VALUES (:host, :zone, :by) ON CONFLICT (host) DO NOTHING
""")
ALL = text("SELECT host, zone, settled_at, settled_by FROM host_zones")
# A schedule that another host took over keeps the zone of the one whose entry it was.
FOLLOWED = text("""
SELECT s.id, z.host, z.zone FROM schedules s JOIN host_zones z ON z.host = s.zone_of
WHERE s.removed_at IS NULL AND s.zone_of <> :host
""")
CHANGE = text("""
INSERT INTO host_zones (host, zone, settled_by) VALUES (:host, :zone, :by)
ON CONFLICT (host) DO UPDATE SET zone = excluded.zone, settled_by = excluded.settled_by, settled_at = clock_timestamp()
""")
# As `Schedules.sync`: no worker plans by the old zone after this has returned and it has looked again.
TURN = text("SELECT pg_advisory_xact_lock(hashtext('pidispatch schedules'))")


@dataclass(frozen=True, slots=True)
class SettledZone:
    """The zone of a host's schedules without one of their own, since when, and who settled it."""

    host: str
    zone: str
    settled_at: datetime
    settled_by: str


class HostZones:
    """The zone of one host; `by` names who asks, and settles it when nobody has."""

    def __init__(self, database: Database, *, host: str, by: str) -> None:
        self._database = database
        self._host = host
        self._by = by

    def zones(self, own: str) -> Zones:
        """What is settled; `own`, the zone of this process's clock, where nothing is. Raises DatabaseUnavailable."""
        with self._database.transaction() as connection:
            connection.execute(SETTLE, {"host": self._host, "zone": own, "by": self._by})
            settled = {row.host: row.zone for row in connection.execute(ALL)}
            followed = {
                row.id: Zone(row.host, row.zone) for row in connection.execute(FOLLOWED, {"host": self._host})
            }
        return Zones(Zone(self._host, settled[self._host]), followed)

    def change(self, zone: str) -> SettledZone | None:
        """At an operator's word; returns what was settled before. Workers follow at their next look at the rows."""
        with self._database.transaction() as connection:
            connection.execute(TURN)
            before = _settled(connection.execute(ALL)).get(self._host)
            connection.execute(CHANGE, {"host": self._host, "zone": zone, "by": self._by})
            detail: dict[str, object] = {"zone": zone, "before": None if before is None else before.zone}
            audit(connection, "triggers-zone", self._host, self._by, detail)
        return before


def settled_zones(database: Database) -> Mapping[str, SettledZone]:
    """By host. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        return _settled(connection.execute(ALL))


def _settled(rows: Iterable[Row[Any]]) -> Mapping[str, SettledZone]:
    return {row.host: SettledZone(row.host, row.zone, row.settled_at, row.settled_by) for row in rows}
