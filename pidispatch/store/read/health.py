"""Read what decides whether the queue is healthy, at one instant."""

from sqlalchemy import text

from pidispatch.domain.health.health import RowFacts
from pidispatch.domain.health.rows import (
    Elsewhere,
    HostFacts,
    OpenCall,
    Overdue,
    Passing,
    Stopping,
    Unattended,
)
from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import ALIVE_SECONDS, SILENT_SECONDS, STRANDED_SQL
from pidispatch.store.read.queue import NOW
from pidispatch.store.rows import record
from pidispatch.store.runs.startable import STARTABLE
from pidispatch.store.runs.transitions import STOP_ASKED_SQL
from pidispatch.store.tables import OCCUPYING_SQL

MOST = 100  # rows of one kind that are looked at: one is enough to be red
# Another host takes a schedule over at its next look at the rows, half a minute after the one that had it counts as gone.
SILENT_SCHEDULE_SECONDS = ALIVE_SECONDS + 35

HOSTS = text(f"""
SELECT h.name,
       (SELECT count(*) FROM runs r WHERE r.host = h.name AND r.state IN ({OCCUPYING_SQL})) AS used,
       (SELECT min(w.started_at) FROM workers w
        WHERE w.host = h.name AND w.heartbeat_at > clock_timestamp() - interval '15 seconds') AS worker_since,
       h.heartbeat_at, h.reconciled_at,
       (SELECT greatest(count(DISTINCT w.place), count(DISTINCT w.engine_id)) FROM workers w
        WHERE w.host = h.name AND w.heartbeat_at > clock_timestamp() - interval '{SILENT_SECONDS} seconds') AS machines,
       h.refused_at, h.refused
FROM hosts h ORDER BY h.name
""")  # noqa: S608 - fixed words
# What last made room or moved counts as the beginning of the wait: an ending here or in the run's scopes, an
# admission here, a resume, the worker's own start. So a run is overdue only while nothing at all happened for it.
OVERDUE = text(f"""
SELECT o.public_id, h.name AS host,
       greatest(o.since, w.since, a.since,
                (SELECT max(at) FROM audit_log WHERE action = 'resume')) AS since
FROM hosts h
CROSS JOIN LATERAL (SELECT min(started_at) AS since FROM workers
  WHERE host = h.name AND heartbeat_at > clock_timestamp() - interval '15 seconds') w
CROSS JOIN LATERAL (SELECT count(*) AS used, max(admitted_at) AS since FROM runs
  WHERE host = h.name AND state IN ({OCCUPYING_SQL})) a
CROSS JOIN LATERAL (
  SELECT r.public_id,
         greatest(r.state_since, r.not_before,
                  (SELECT max(e.ended_at) FROM runs e WHERE e.ended_at > clock_timestamp() - interval '1 minute'
                     AND (e.host = h.name OR e.scope = r.scope OR e.project = r.project))) AS since
  {STARTABLE.replace(":host", "h.name")} AND r.state_since < clock_timestamp() - interval '20 seconds'
  ORDER BY 2 LIMIT 1) o
WHERE w.since IS NOT NULL AND a.used < h.capacity
""")  # noqa: S608 - fixed words
STOPPING = text(f"""
SELECT * FROM (SELECT r.public_id, r.host, {STOP_ASKED_SQL} AS since FROM runs r WHERE r.state IN ({OCCUPYING_SQL})) s
WHERE since IS NOT NULL ORDER BY since LIMIT {MOST}
""")  # noqa: S608 - a number
PASSING = text(f"""
SELECT r.public_id, r.host, r.state, r.state_since AS since FROM runs r
LEFT JOIN run_attempts a ON a.run_id = r.id AND a.attempt = r.attempt
WHERE r.state IN ('admitted', 'preparing', 'finishing') OR (r.state = 'running' AND a.go_at IS NULL)
ORDER BY r.state_since LIMIT {MOST}
""")  # noqa: S608 - a number
ELSEWHERE = text(f"""
SELECT r.public_id, r.host FROM runs r JOIN run_attempts a ON a.run_id = r.id AND a.attempt = r.attempt
WHERE r.state IN ({OCCUPYING_SQL}) AND {STRANDED_SQL} ORDER BY r.id LIMIT {MOST}
""")  # noqa: S608 - fixed words
CALLS = text(f"""
SELECT r.public_id, r.state, r.state_since, c.opened_at FROM provider_calls c JOIN runs r ON r.id = c.run_id
WHERE c.state = 'held' ORDER BY r.state = 'running', c.opened_at LIMIT {MOST}
""")  # noqa: S608 - a number
UNATTENDED = text(f"""
SELECT s.id AS schedule, s.host FROM schedules s LEFT JOIN hosts h ON h.name = s.host
WHERE s.removed_at IS NULL AND s.next_at IS NOT NULL
  AND coalesce(h.heartbeat_at, '-infinity') < clock_timestamp() - interval '{SILENT_SCHEDULE_SECONDS} seconds'
ORDER BY s.host, s.place, s.id LIMIT {MOST}
""")  # noqa: S608 - numbers


def row_facts(database: Database) -> RowFacts:
    """Only for a schema that is this version's. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return RowFacts(
            hosts=[record(HostFacts, row) for row in connection.execute(HOSTS)],
            overdue=[record(Overdue, row) for row in connection.execute(OVERDUE)],
            stopping=[record(Stopping, row) for row in connection.execute(STOPPING)],
            calls=[record(OpenCall, row) for row in connection.execute(CALLS)],
            passing=[record(Passing, row) for row in connection.execute(PASSING)],
            elsewhere=[record(Elsewhere, row) for row in connection.execute(ELSEWHERE)],
            unattended=[record(Unattended, row) for row in connection.execute(UNATTENDED)],
            at=connection.execute(NOW).scalar_one(),
        )
