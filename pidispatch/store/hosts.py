"""Say that this host and this worker live, and what the reconciler needs to know of them."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, text
from sqlalchemy.types import Text

from pidispatch.domain.hostidentity import Contender, Identity
from pidispatch.store.database import Database
from pidispatch.store.sessions import FORGET_SESSIONS
from pidispatch.store.startable import OCCUPYING_SQL, STARTABLE

ALIVE_SECONDS = 60
# A run `r` whose attempt `a` has its box on an engine that none of its host's live workers has. A worker that does not
# know its engine yet may have it.
STRANDED_SQL = f"""
a.container_id IS NOT NULL AND EXISTS (SELECT 1 FROM workers w WHERE w.host = r.host
  AND w.heartbeat_at > clock_timestamp() - interval '{ALIVE_SECONDS} seconds')
AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.host = r.host AND (w.engine_id IS NULL OR w.engine_id = a.engine_id)
  AND w.heartbeat_at > clock_timestamp() - interval '{ALIVE_SECONDS} seconds')
"""  # noqa: S608 - a number
SILENT_SECONDS = 30  # without a sign of life from any of its workers, a host's runs are unreachable
MOST_FORGOTTEN = 1000  # rows of a table in one pass

# The host's row is locked while an admission goes on, and that may wait for others in turn. No sign of life waits for
# it: what cannot be written now is written by the next one. A worker's own row is nobody else's.
FREE_HOST = "(SELECT name FROM hosts WHERE name = :host FOR NO KEY UPDATE SKIP LOCKED)"
# Two that start at once see each other: the second waits until the first has its row.
NAME_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('pidispatch host ' || :host, 0))")
SET_HOST = text(f"""
UPDATE hosts SET capacity = :capacity, heartbeat_at = clock_timestamp(), refused_at = NULL, refused = NULL,
  engine_id = coalesce(:engine_id, engine_id)
WHERE name IN {FREE_HOST}
""").bindparams(bindparam("engine_id", type_=Text))  # noqa: S608 - fixed words
REFUSE_HOST = text(f"""
UPDATE hosts SET refused_at = clock_timestamp(), refused = :refused WHERE name IN {FREE_HOST}
""")  # noqa: S608 - fixed words
CONTENDERS = text(f"""
SELECT w.id, w.engine_id, w.place,
       w.started_at < coalesce((SELECT started_at FROM workers WHERE id = :worker), clock_timestamp()) AS earlier,
       extract(epoch FROM clock_timestamp() - w.heartbeat_at)::float8 AS heard
FROM workers w
WHERE w.host = :host AND w.id <> :worker AND w.place IS NOT NULL
  AND w.heartbeat_at > clock_timestamp() - interval '{SILENT_SECONDS} seconds'
ORDER BY w.started_at, w.id
""")  # noqa: S608 - a number
KNOW_HOST = text("INSERT INTO hosts (name, capacity) VALUES (:name, :capacity) ON CONFLICT (name) DO NOTHING")
INSTALLATION = text("SELECT installation FROM hosts WHERE name = :name")
REGISTER_WORKER = text("""
INSERT INTO workers (id, host, pid, version, engine_id, place)
VALUES (:id, :host, :pid, :version, :engine_id, :place)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = clock_timestamp()
""")
BEAT = text("""
UPDATE workers SET heartbeat_at = clock_timestamp(), engine_id = coalesce(:engine_id, engine_id) WHERE id = :worker
""").bindparams(bindparam("engine_id", type_=Text))
BEAT_HOST = text(f"""
UPDATE hosts SET heartbeat_at = clock_timestamp(), engine_id = coalesce(:engine_id, engine_id)
WHERE name IN {FREE_HOST}
""").bindparams(bindparam("engine_id", type_=Text))  # noqa: S608 - fixed words
RECONCILED = text(f"UPDATE hosts SET reconciled_at = clock_timestamp() WHERE name IN {FREE_HOST}")  # noqa: S608
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

    def register(
        self, *, worker: str, pid: int, version: str, capacity: int, identity: Identity
    ) -> str | Sequence[Contender]:
        with self._database.transaction() as connection:
            connection.execute(NAME_LOCK, {"host": self._host})
            if others := self._others(connection, worker, identity):
                connection.execute(REFUSE_HOST, {"host": self._host, "refused": str(identity)})
                return others
            installation = self._known(connection, capacity)
            engine_id = identity.engine_id
            connection.execute(SET_HOST, {"host": self._host, "capacity": capacity, "engine_id": engine_id})
            row = {"id": worker, "host": self._host, "pid": pid, "version": version}
            connection.execute(REGISTER_WORKER, {**row, "engine_id": engine_id, "place": identity.place})
        return installation

    def refuse(self, identity: Identity) -> None:
        """Keep that a worker of this identity was refused under the name, until one is let in."""
        with self._database.transaction() as connection:
            connection.execute(REFUSE_HOST, {"host": self._host, "refused": str(identity)})

    def contenders(self, identity: Identity) -> Sequence[Contender]:
        """Who else lives under this host's name, for one who has no row yet."""
        with self._database.transaction() as connection:
            return self._others(connection, "", identity)

    def _others(self, connection: Connection, worker: str, identity: Identity) -> Sequence[Contender]:
        rows = connection.execute(CONTENDERS, {"host": self._host, "worker": worker})
        found = [
            Contender(row.id, Identity(row.engine_id, row.place), row.earlier, row.heard) for row in rows
        ]
        return [each for each in found if identity.differs(each.identity)]

    def known_installation(self) -> str | None:
        """The label of this host's containers, None where no worker and no request has ever been."""
        with self._database.transaction() as connection:
            found: str | None = connection.execute(INSTALLATION, {"name": self._host}).scalar_one_or_none()
            return found

    def installation(self, *, capacity: int) -> str:
        """The label of this host's containers. A host that no worker has registered yet is made known."""
        with self._database.transaction() as connection:
            return self._known(connection, capacity)

    def _known(self, connection: Connection, capacity: int) -> str:
        found: str | None = connection.execute(INSTALLATION, {"name": self._host}).scalar_one_or_none()
        if found is not None:
            return found
        connection.execute(KNOW_HOST, {"name": self._host, "capacity": capacity})
        made: str = connection.execute(INSTALLATION, {"name": self._host}).scalar_one()
        return made

    def beat(self, worker: str, identity: Identity) -> Sequence[Contender]:
        with self._database.transaction() as connection:
            connection.execute(BEAT, {"worker": worker, "engine_id": identity.engine_id})
            connection.execute(BEAT_HOST, {"host": self._host, "engine_id": identity.engine_id})
            return self._others(connection, worker, identity)

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
