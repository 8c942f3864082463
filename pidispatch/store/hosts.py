"""Say that this host and this worker live, and what the reconciler needs to know of them."""

from datetime import datetime

from sqlalchemy import text

from pidispatch.store.database import Database
from pidispatch.store.models import OCCUPYING_SQL
from pidispatch.store.sessions import FORGET_SESSIONS
from pidispatch.store.startable import STARTABLE

SILENT_SECONDS = 30  # without a sign of life from any of its workers, a host's runs are unreachable
MOST_FORGOTTEN = 1000  # rows of a table in one pass

REGISTER_HOST = text("""
INSERT INTO hosts (name, capacity, engine_id) VALUES (:name, :capacity, :engine_id)
ON CONFLICT (name) DO UPDATE SET capacity = excluded.capacity, heartbeat_at = clock_timestamp(),
  engine_id = coalesce(excluded.engine_id, hosts.engine_id)
RETURNING installation
""")
KNOW_HOST = text("INSERT INTO hosts (name, capacity) VALUES (:name, :capacity) ON CONFLICT (name) DO NOTHING")
INSTALLATION = text("SELECT installation FROM hosts WHERE name = :name")
REGISTER_WORKER = text("""
INSERT INTO workers (id, host, pid, version) VALUES (:id, :host, :pid, :version)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = clock_timestamp()
""")
BEAT = text("""
WITH worker AS (UPDATE workers SET heartbeat_at = clock_timestamp() WHERE id = :worker)
UPDATE hosts SET heartbeat_at = clock_timestamp() WHERE name = :host
""")
RECONCILED = text("UPDATE hosts SET reconciled_at = clock_timestamp() WHERE name = :host")
FORGET_WORKERS = text(
    "DELETE FROM workers WHERE host = :host AND heartbeat_at < clock_timestamp() - interval '1 day'"
)
FORGET_PAYLOADS = text("DELETE FROM run_payloads WHERE expires_at < clock_timestamp()")
# A lock that somebody holds now is passed over. A run that has not ended keeps its subject and who asked for it.
FORGET_DELIVERIES = text("""
DELETE FROM deliveries WHERE id IN (
  SELECT d.id FROM deliveries d WHERE d.received_at < clock_timestamp() - interval '90 days'
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = d.run_id AND r.ended_at IS NULL)
  ORDER BY d.received_at LIMIT :most FOR UPDATE OF d SKIP LOCKED)
""")
FORGET_SUBJECTS = text("""
DELETE FROM subjects WHERE key IN (
  SELECT s.key FROM subjects s WHERE s.arrived_at < clock_timestamp() - interval '30 days'
    AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.subject = s.key AND r.ended_at IS NULL)
  ORDER BY s.arrived_at LIMIT :most FOR UPDATE OF s SKIP LOCKED)
""")
LEAVE = text("DELETE FROM workers WHERE id = :id")
# Bells never exceed the room there is for them.
DUE = text(f"""
SELECT least(
  (SELECT count(*) FROM (SELECT 1 {STARTABLE} LIMIT 100) due),
  (SELECT h.capacity + 1 - (SELECT count(*) FROM runs o WHERE o.host = h.name AND o.state IN ({OCCUPYING_SQL}))
   FROM hosts h WHERE h.name = :host)) AS bells
""")  # noqa: S608 - fixed words
TURN = text("SELECT pg_try_advisory_xact_lock(hashtextextended('pidispatch bells ' || :host, 0))")
STARTED_SINCE = text("SELECT EXISTS (SELECT 1 FROM workers WHERE host = :host AND started_at >= :moment)")


class PostgresHosts:
    """Implements `ports.Hosts`."""

    def __init__(self, database: Database, *, host: str) -> None:
        self._database = database
        self._host = host

    def register(self, *, worker: str, pid: int, version: str, capacity: int, engine_id: str | None) -> str:
        """Make this host and worker known; returns the installation, 8 hex digits for container labels."""
        with self._database.transaction() as connection:
            installation: str = connection.execute(
                REGISTER_HOST, {"name": self._host, "capacity": capacity, "engine_id": engine_id}
            ).scalar_one()
            connection.execute(
                REGISTER_WORKER, {"id": worker, "host": self._host, "pid": pid, "version": version}
            )
        return installation

    def known_installation(self) -> str | None:
        """The label of this host's containers, None where no worker and no request has ever been."""
        with self._database.transaction() as connection:
            found: str | None = connection.execute(INSTALLATION, {"name": self._host}).scalar_one_or_none()
            return found

    def installation(self, *, capacity: int) -> str:
        """The label of this host's containers. A host that no worker has registered yet is made known."""
        with self._database.transaction() as connection:
            found: str | None = connection.execute(INSTALLATION, {"name": self._host}).scalar_one_or_none()
            if found is not None:
                return found
            connection.execute(KNOW_HOST, {"name": self._host, "capacity": capacity})
            made: str = connection.execute(INSTALLATION, {"name": self._host}).scalar_one()
            return made

    def beat(self, worker: str) -> None:
        with self._database.transaction() as connection:
            connection.execute(BEAT, {"worker": worker, "host": self._host})

    def leave(self, worker: str) -> None:
        with self._database.transaction() as connection:
            connection.execute(LEAVE, {"id": worker})

    def bells_due(self) -> int:
        """How many bells should hang for this host now; 0 when another process is looking at this moment."""
        with self._database.transaction() as connection:
            if not connection.execute(TURN, {"host": self._host}).scalar_one():
                return 0
            bells: int | None = connection.execute(DUE, {"host": self._host}).scalar_one()
            connection.execute(RECONCILED, {"host": self._host})
        return max(0, bells or 0)

    def tidy(self) -> int:
        with self._database.transaction() as connection:
            connection.execute(FORGET_WORKERS, {"host": self._host})
            connection.execute(FORGET_SESSIONS)
            for statement in (FORGET_DELIVERIES, FORGET_SUBJECTS):
                connection.execute(statement, {"most": MOST_FORGOTTEN})
            return connection.execute(FORGET_PAYLOADS).rowcount

    def has_worker_since(self, moment: datetime) -> bool:
        """Whether a worker of this host has started since `moment`, by Postgres's clock."""
        with self._database.transaction() as connection:
            found: bool = connection.execute(
                STARTED_SINCE, {"host": self._host, "moment": moment}
            ).scalar_one()
            return found
