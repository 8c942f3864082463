"""Keep the schedules of a host: agree on the entries, and plan each instant exactly once."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain import words
from pidispatch.domain.schedules.timetable import Timetable
from pidispatch.domain.triggers.catchup import Slot, SlotState
from pidispatch.domain.triggers.inforce import MakeRun, Planned, ScheduleEntry, Standing
from pidispatch.domain.triggers.trigger import Missed
from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import ALIVE_SECONDS
from pidispatch.store.triggers.planning import CHUNK, Batch, lock_ahead

MOST = 200  # schedules planned in one transaction

NOW = text("SELECT coalesce(CAST(:now AS timestamptz), clock_timestamp())")
TURN = text("SELECT pg_advisory_xact_lock(hashtext('pidispatch schedules'))")
CLAIM = text("""
SELECT id, pattern, zone, missed, planned_until FROM schedules
WHERE host = :host AND revision = :revision AND removed_at IS NULL AND next_at <= :now
ORDER BY next_at, id LIMIT :most FOR UPDATE SKIP LOCKED
""")
NEXT = text("SELECT min(next_at) FROM schedules WHERE host = :host AND removed_at IS NULL")
KNOWN = text(f"""
SELECT s.id, s.host, s.served, s.place, s.pattern, s.zone, s.zone_of, s.missed, s.revision, s.removed_at,
       coalesce(h.heartbeat_at > clock_timestamp() - interval '{ALIVE_SECONDS} seconds', false) AS alive
FROM schedules s LEFT JOIN hosts h ON h.name = s.host
WHERE s.host = :host OR s.id = ANY(:ids)
""").bindparams(bindparam("ids", type_=ARRAY(Text)))  # noqa: S608 - a fixed number
LOCK = text("""
SELECT id, pattern, zone, missed, planned_until, next_at, removed_at FROM schedules
WHERE id = ANY(:ids) ORDER BY id FOR UPDATE
""").bindparams(bindparam("ids", type_=ARRAY(Text)))
ADD = text("""
INSERT INTO schedules (id, host, served, place, pattern, zone, zone_of, missed, revision, planned_until, next_at, created_at, changed_at)
VALUES (:id, :host, :served, :place, :pattern, :zone, :zone_of, :missed, :revision, :planned_until, :next_at, :now, :now)
""")
CHANGE = text("""
UPDATE schedules SET host = :host, served = :served, place = :place, pattern = :pattern, zone = :zone, zone_of = :zone_of,
  missed = :missed, revision = :revision, planned_until = :planned_until, next_at = :next_at, removed_at = NULL, changed_at = :now
WHERE id = :id
""")
REMOVE = text("UPDATE schedules SET removed_at = :now, next_at = NULL, changed_at = :now WHERE id = :id")


class Schedules:
    """The schedules of this host, as rows. `now` None is Postgres's clock. Raises DatabaseUnavailable."""

    def __init__(self, database: Database, *, host: str, make: MakeRun) -> None:
        self._database = database
        self._host = host
        self._make = make

    def plan(self, standing: Standing, now: datetime | None = None) -> Planned:
        """Give the instants that have come their slots and runs, a bounded number of schedules, in one transaction.

        What another process plans at this moment is left to it, and so is what was synced with other entries.
        """
        with self._database.transaction() as connection:
            moment = _now(connection, now)
            asked = {"host": self._host, "revision": standing.revision, "now": moment, "most": MOST}
            due = connection.execute(CLAIM, asked).all()
            batch = Batch(connection, self._make, moment)
            for row in due:
                batch.add(
                    row.id, _timetable(row), row.planned_until, standing.entries[row.id], Missed(row.missed)
                )
            runs = batch.write()
            following: datetime | None = connection.execute(NEXT, {"host": self._host}).scalar_one()
        return Planned(moment, len(due), runs, following)

    def sync(self, current: Callable[[], Standing], now: datetime | None = None) -> Standing:
        """Make the entries known: new ones are planned from now on, those that are gone stop, an edit takes effect.

        `current` is asked while no other process can sync, so an older file never follows a newer one. Instants that
        came before an edit of their pattern and have no slot yet get it here, by the old pattern.
        """
        with self._database.transaction() as connection:
            connection.execute(TURN)
            standing = current()
            asked = {"host": self._host, "ids": list(standing.entries)}
            rows = {row.id: row for row in connection.execute(KNOWN, asked)}
            told = {entry.id: self._told(entry, standing) for entry in standing.entries.values()}
            moved = [
                name
                for name, row in rows.items()
                if self._is_to_go(row, standing)
                or (
                    name in told and self._may_have(row, standing.entries[name]) and _differs(row, told[name])
                )
            ]
            # Nothing is locked that stays as it is: planning goes on beside the look that every process takes.
            locked = connection.execute(LOCK, {"ids": moved}).all() if moved else []
            moment = _now(connection, now)
            late = [row.id for row in locked if row.next_at is not None and row.next_at <= moment]
            lock_ahead(
                connection, self._make, [standing.entries[name] for name in late if name in told], moment
            )
            added = [
                {**values, **_from(now=moment, entry=standing.entries[name])}
                for name, values in told.items()
                if name not in rows
            ]
            changed = [
                {**told[row.id], **self._continued(connection, row, standing.entries[row.id], moment)}
                for row in locked
                if row.id in told
            ]
            self._remove(connection, [row for row in locked if row.id not in told], moment)
            for statement, several in ((ADD, added), (CHANGE, changed)):
                if several:
                    connection.execute(statement, several)
        return standing

    def _is_to_go(self, row: Row[Any], standing: Standing) -> bool:
        return row.host == self._host and row.removed_at is None and row.id not in standing.entries

    def _may_have(self, row: Row[Any], entry: ScheduleEntry) -> bool:
        """Another host keeps what it plans, while it lives and has the folder, or has no less than we."""
        mine = row.host == self._host or row.removed_at is not None or not row.alive
        return mine or (entry.served and not row.served)

    def _continued(
        self, connection: Connection, row: Row[Any], entry: ScheduleEntry, now: datetime
    ) -> dict[str, Any]:
        """How far it is planned, once what came before the edit has its slots."""
        old = _timetable(row)
        if row.removed_at is not None:
            return _from(now=now, entry=entry)
        if old == entry.timetable:
            return {"planned_until": row.planned_until, "next_at": row.next_at, "now": now}
        if row.next_at is not None and row.next_at <= now and old.sound:
            until = row.planned_until
            while until < now:
                batch = Batch(connection, self._make, now)
                until = batch.add(row.id, old, until, entry, Missed(row.missed))
                batch.write()
        return _from(now=now, entry=entry)

    def _remove(self, connection: Connection, rows: list[Row[Any]], now: datetime) -> None:
        """What had come before its entry was gone, and was not planned, is skipped."""
        for row in rows:
            old, until = _timetable(row), row.planned_until
            due = row.next_at is not None and row.next_at <= now and old.sound
            while due and until < now:
                batch = Batch(connection, self._make, now)
                instants, following = old.come(until, now, CHUNK)
                batch.skip(row.id, [Slot(each, SlotState.SKIPPED, words.REMOVED) for each in instants])
                batch.write()
                until = instants[-1] if following is not None and following <= now else now
        if rows:
            connection.execute(REMOVE, [{"id": row.id, "now": now} for row in rows])

    def _told(self, entry: ScheduleEntry, standing: Standing) -> dict[str, Any]:
        return {
            "id": entry.id,
            "host": self._host,
            "served": entry.served,
            "place": entry.trigger.index,
            "pattern": entry.timetable.pattern,
            "zone": entry.timetable.zone,
            "zone_of": entry.zone_of,
            "missed": entry.missed.value,
            "revision": standing.revision,
        }


def _from(*, now: datetime, entry: ScheduleEntry) -> dict[str, Any]:
    """Planned from now on: what a pattern names in the past is no business of it."""
    return {"planned_until": now, "next_at": entry.timetable.next(now), "now": now}


def _differs(row: Row[Any], told: Mapping[str, Any]) -> bool:
    return row.removed_at is not None or any(value != getattr(row, name) for name, value in told.items())


def _timetable(row: Row[Any]) -> Timetable:
    return Timetable(row.pattern, row.zone)


def _now(connection: Connection, now: datetime | None) -> datetime:
    moment: datetime = connection.execute(NOW, {"now": now}).scalar_one()
    return moment
