"""Read what holds a waiting run back at this moment."""

from sqlalchemy import text

from pidispatch.domain.explain import Surroundings
from pidispatch.store.database import Database
from pidispatch.store.rows import record
from pidispatch.store.startable import OCCUPYING_SQL

AROUND = text(f"""
SELECT clock_timestamp() AS now, g.paused_at AS everything_paused_at,
       array_remove(ARRAY[CASE WHEN s.paused_at IS NOT NULL THEN s.key END,
                          CASE WHEN j.paused_at IS NOT NULL THEN j.key END], NULL) AS scopes_paused,
       (SELECT o.public_id FROM runs o WHERE o.state IN ({OCCUPYING_SQL})
          AND (o.mutex = r.mutex OR o.mutex = ANY(r.mutex_within) OR r.mutex = ANY(o.mutex_within)) LIMIT 1) AS busy_with,
       array_remove(ARRAY[CASE WHEN s.occupied >= s."limit" THEN s.key END,
                          CASE WHEN j.occupied >= j."limit" THEN j.key END], NULL) AS full_scopes,
       r.pinned_host AS host,
       (SELECT count(*) FROM runs o WHERE o.host = r.pinned_host AND o.state IN ({OCCUPYING_SQL})) AS host_used,
       h.capacity AS host_capacity,
       (SELECT count(*) FROM workers w WHERE w.host = r.pinned_host
          AND w.heartbeat_at > clock_timestamp() - interval '15 seconds') AS workers
FROM runs r JOIN scopes g ON g.key = '*' JOIN scopes s ON s.key = r.scope
     LEFT JOIN scopes j ON j.key = 'project:' || r.project LEFT JOIN hosts h ON h.name = r.pinned_host
WHERE r.id = :id
""")  # noqa: S608 - fixed words


def surroundings(database: Database, run_id: int) -> Surroundings:
    """Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        row = connection.execute(AROUND, {"id": run_id}).one()
    return record(Surroundings, row)
