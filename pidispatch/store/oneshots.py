"""Spend a one-shot trigger exactly once, give it back, mark it, and arm it again. Locked last: after the windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from pidispatch.domain.oneshot import Spent
from pidispatch.errors import CannotRearm
from pidispatch.store.audit import audit
from pidispatch.store.database import Database
from pidispatch.store.rows import record

# Whoever comes second waits here until the first has committed or given up, and then reads whose it is.
SPEND = text("""
INSERT INTO one_shots AS o (key, trigger_type, trigger_index, repo, number, run_id)
SELECT r.one_shot, r.trigger_type, r.trigger_index, substr(s.scope, strpos(s.scope, ':') + 1),
       substring(s.item FROM '^[#!]([0-9]{1,9})$')::int, r.id
FROM runs r LEFT JOIN subjects s ON s.key = r.subject WHERE r.id = :run
ON CONFLICT (key) DO UPDATE SET key = o.key
RETURNING o.run_id, o.spent_at, (SELECT public_id FROM runs w WHERE w.id = o.run_id) AS spent_by
""")
GIVE_BACK = text("DELETE FROM one_shots WHERE run_id = :run AND marked_at IS NULL")
TO_MARK = text("""
SELECT o.key, o.spent_at, r.public_id AS run, r.ended_at FROM one_shots o JOIN runs r ON r.id = o.run_id
WHERE o.marked_at IS NULL AND r.ended_at IS NOT NULL
  AND EXISTS (SELECT 1 FROM run_attempts a WHERE a.run_id = r.id AND a.go_at IS NOT NULL)
ORDER BY o.spent_at, o.key
""")
MARKED_IN = text("""
SELECT o.key, o.spent_at, r.public_id AS run, r.ended_at FROM one_shots o JOIN runs r ON r.id = o.run_id
WHERE o.marked_in = :place ORDER BY o.key
""")
MARKED = text("""
UPDATE one_shots SET marked_at = coalesce(marked_at, clock_timestamp()), marked_in = coalesce(marked_in, :place)
WHERE key = :key AND spent_at = :spent_at
""")
LOCK = text("""
SELECT o.run_id, o.spent_at, o.marked_at, r.public_id, r.ended_at IS NOT NULL AS ended
FROM one_shots o JOIN runs r ON r.id = o.run_id WHERE o.key = :key FOR UPDATE OF o
""")
ARCHIVE = text("""
WITH gone AS (DELETE FROM one_shots WHERE key = :key RETURNING key, run_id, spent_at, marked_at)
INSERT INTO rearmed_one_shots (key, run_id, spent_at, marked_at, rearmed_by)
SELECT key, run_id, spent_at, marked_at, :by FROM gone
""")


@dataclass(frozen=True, slots=True)
class Taken:
    """Another run has spent the one-shot."""

    run: str
    at: datetime


def spend(connection: Connection, run_id: int) -> Taken | None:
    """None: the run has it now, or had it already, as a retry does. A rollback gives it back."""
    row = connection.execute(SPEND, {"run": run_id}).one()
    return None if row.run_id == run_id else Taken(row.spent_by, row.spent_at)


def give_back(connection: Connection, run_id: int) -> None:
    """The run never got its go: its one-shot, if it has one, may fire again."""
    connection.execute(GIVE_BACK, {"run": run_id})


class PostgresOneShots:
    """Implements `ports.OneShots`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def to_mark(self) -> Sequence[Spent]:
        with self._database.transaction() as connection:
            return [record(Spent, row) for row in connection.execute(TO_MARK)]

    def marked_in(self, place: str) -> Sequence[Spent]:
        with self._database.transaction() as connection:
            return [record(Spent, row) for row in connection.execute(MARKED_IN, {"place": place})]

    def marked(self, spent: Spent, place: str) -> bool:
        asked = {"key": spent.key, "spent_at": spent.spent_at, "place": place}
        with self._database.transaction() as connection:
            return connection.execute(MARKED, asked).rowcount == 1

    def rearm_unmarked(self, spent: Spent, by: str) -> bool:
        with self._database.transaction() as connection:
            row = connection.execute(LOCK, {"key": spent.key}).one_or_none()
            if row is None or row.spent_at != spent.spent_at or row.marked_at is None:
                return False
            _rearm(connection, spent.key, row.public_id, by, by_hand=False)
        return True

    def rearm(self, key: str, by: str) -> str:
        with self._database.transaction() as connection:
            row = connection.execute(LOCK, {"key": key}).one_or_none()
            if row is None:
                raise CannotRearm(key)
            if not row.ended:
                raise CannotRearm(key, live=row.public_id)
            _rearm(connection, key, row.public_id, by, by_hand=True)
            run: str = row.public_id
        return run


def note_unmarked(database: Database, key: str, by: str) -> None:
    """Audit that a mark was taken out which no row stood for. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        audit(connection, "rearm", key, by, {"run": None, "how": "command"})


def _rearm(connection: Connection, key: str, run: str, by: str, *, by_hand: bool) -> None:
    connection.execute(ARCHIVE, {"key": key, "by": by})
    audit(connection, "rearm", key, by, {"run": run, "how": "command" if by_hand else "mark-deleted"})
