"""Read what held a run of a schedule back between its instant and its go."""

from datetime import datetime

from sqlalchemy import text

from pidispatch.domain.lateness import SlotFacts
from pidispatch.store.database import Database
from pidispatch.store.rows import record

FACTS = text("""
SELECT s.planned_at, s.decided_at, s.reason, a.admitted_at, r.started_at, r.attempt AS attempts,
       b.public_id AS busy_with, b.ended_at AS busy_until, p.at AS paused_until
FROM schedule_slots s JOIN runs r ON r.id = s.run_id
LEFT JOIN LATERAL (SELECT min(admitted_at) AS admitted_at FROM run_attempts WHERE run_id = r.id) a ON true
LEFT JOIN LATERAL (
  SELECT o.public_id, o.ended_at FROM runs o
  WHERE (o.mutex = r.mutex OR o.mutex = ANY(r.mutex_within)) AND o.id <> r.id AND o.attempt > 0
    AND o.ended_at > s.planned_at AND o.ended_at <= coalesce(a.admitted_at, clock_timestamp())
  ORDER BY o.ended_at DESC LIMIT 1) b ON true
LEFT JOIN LATERAL (
  SELECT max(l.at) AS at FROM audit_log l
  WHERE l.action = 'resume' AND l.detail ->> 'changed' = 'true' AND l.subject IN ('*', r.scope, 'project:' || r.project)
    AND l.at > s.planned_at AND l.at <= coalesce(a.admitted_at, clock_timestamp())) p ON true
WHERE s.run_id = :run
""")
NOW = text("SELECT clock_timestamp()")


def slot_facts(database: Database, run_id: int) -> tuple[SlotFacts, datetime] | None:
    """With Postgres's clock; None for a run that no instant of a schedule started. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        row = connection.execute(FACTS, {"run": run_id}).one_or_none()
        if row is None:
            return None
        now: datetime = connection.execute(NOW).scalar_one()
    return record(SlotFacts, row), now
