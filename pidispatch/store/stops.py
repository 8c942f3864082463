"""Read which runs may make no model call, because an operator stopped all calls."""

from collections.abc import Collection

from sqlalchemy import text

from pidispatch.store.database import Database
from pidispatch.store.pipeline import alone
from pidispatch.store.startable import OCCUPYING_SQL

STOPPED = text(f"""
SELECT r.id FROM runs r WHERE r.host = :host AND r.state IN ({OCCUPYING_SQL})
  AND EXISTS (SELECT 1 FROM scopes s
              WHERE s.key IN ('*', r.scope, 'project:' || r.project) AND s.stopped_at IS NOT NULL)
""")  # noqa: S608 - fixed words


class PostgresStops:
    """Implements `ports.Stops`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def stopped(self, host: str) -> Collection[int]:
        return [run_id for (run_id,) in alone(self._database, STOPPED, {"host": host})]
