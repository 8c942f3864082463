"""Read what the rows hold against a run that an event would start; nothing is locked, nothing written."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain.arrival import There
from pidispatch.store.database import Database
from pidispatch.store.rows import record

SPENT = text("""
SELECT r.public_id AS run, o.spent_at AS at, r.ended_at IS NOT NULL AS ended, o.marked_in
FROM one_shots o JOIN runs r ON r.id = o.run_id WHERE o.key = :key
""")
LIVE = text("""
SELECT r.id, r.public_id, r.state IN ('queued', 'deferred', 'held') AND r.started_at IS NULL AS waits,
       r.stop_reason IS NOT NULL AS stops
FROM runs r WHERE r.subject = ANY(:subjects) AND r.ended_at IS NULL ORDER BY r.id
""").bindparams(bindparam("subjects", type_=ARRAY(Text)))


@dataclass(frozen=True, slots=True)
class SpentRecord:
    """Who spent a one-shot. `ended`: that run has. `marked_in` is the place of the file with the mark, as noted."""

    run: str
    at: datetime
    ended: bool
    marked_in: str | None


def spent_by(database: Database, key: str) -> SpentRecord | None:
    """None for a one-shot that is armed. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        row = connection.execute(SPENT, {"key": key}).one_or_none()
        return None if row is None else record(SpentRecord, row)


def live_runs(database: Database, subjects: Sequence[str]) -> tuple[There, ...]:
    """The runs of these subjects that have not ended, the oldest first. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        rows = connection.execute(LIVE, {"subjects": list(subjects)})
        return tuple(There(row.id, row.public_id, row.waits, row.stops) for row in rows)
