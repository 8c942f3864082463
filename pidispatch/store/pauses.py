"""Hold a scope back, or everything, until an operator lets it go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, bindparam, text

from pidispatch.domain import words
from pidispatch.errors import DatabaseUnavailable
from pidispatch.store.audit import audit
from pidispatch.store.database import Database
from pidispatch.store.startable import OCCUPYING_SQL

# Admissions share the row of `*`, and Postgres lets a new sharer pass a waiting writer: under load an UPDATE alone
# might wait for ever. Locks on tables queue in turn, so this one waits for the admissions under way, and only for them.
IN_TURN = text("LOCK TABLE scopes IN EXCLUSIVE MODE")
KNOWN = text("SELECT EXISTS (SELECT 1 FROM scopes WHERE key = :key)")
BEFORE = text("SELECT paused_at, stopped_at FROM scopes WHERE key = :key")
PAUSE = text("""
INSERT INTO scopes (key, paused_at, paused_by, stopped_at)
VALUES (:key, clock_timestamp(), :actor, CASE WHEN :stops THEN clock_timestamp() END)
ON CONFLICT (key) DO UPDATE SET paused_at = coalesce(scopes.paused_at, excluded.paused_at),
  paused_by = CASE WHEN scopes.paused_at IS NULL THEN excluded.paused_by ELSE scopes.paused_by END,
  stopped_at = coalesce(scopes.stopped_at, excluded.stopped_at)
RETURNING paused_at, paused_by, stopped_at
""")
RESUME = text("UPDATE scopes SET paused_at = NULL, paused_by = NULL, stopped_at = NULL WHERE key = :key")
# A run that was caught by the pause forgets it; a locked one is being looked at and will be told anew.
LET_GO = text(f"""
UPDATE runs SET state = 'queued', cause = NULL, epoch = epoch + 1, state_since = clock_timestamp()
WHERE id IN (SELECT id FROM runs WHERE state = 'deferred' AND cause = '{words.PAUSED}'
               AND (:key = '*' OR :key IN (scope, 'project:' || project)) FOR UPDATE SKIP LOCKED)
""").bindparams(bindparam("key", type_=Text))  # noqa: S608 - fixed words
STANDING = text(f"""
SELECT (SELECT count(*) FROM runs WHERE state IN ({OCCUPYING_SQL})
          AND (:key = '*' OR :key IN (scope, 'project:' || project))) AS running,
       (SELECT count(*) FROM runs WHERE state IN ('queued', 'deferred', 'held')
          AND (:key = '*' OR :key IN (scope, 'project:' || project))) AS waiting,
       (SELECT paused_at FROM scopes WHERE key = '*') AS everything
""").bindparams(bindparam("key", type_=Text))  # noqa: S608 - fixed words
# One bell for each run that may start: what waits for a host, and no more than its room.
DUE = text(f"""
SELECT h.name, least(
  h.capacity - (SELECT count(*) FROM runs o WHERE o.host = h.name AND o.state IN ({OCCUPYING_SQL})),
  (SELECT count(*) FROM runs r WHERE r.state IN ('queued', 'deferred') AND coalesce(r.pinned_host, h.name) = h.name
     AND (r.not_before IS NULL OR r.not_before <= now()))) AS bells
FROM hosts h ORDER BY h.name
""")  # noqa: S608 - fixed words


@dataclass(frozen=True, slots=True)
class Pause:
    """What became of a pause or a resume. `changed` is False when it was so already.

    `stopped_at` is since when every model call of its runs is refused, or was; None: they may call. `paused_at` is since when the scope is held back, or was; `running` and `waiting` count its runs right after.
    `everything_paused_at` tells that another pause, that of everything, holds its runs back too. What could not be
    counted any more is None, and `unread` says why.
    """

    scope: str
    changed: bool
    paused_at: datetime | None
    paused_by: str | None
    running: int | None
    waiting: int | None
    everything_paused_at: datetime | None
    stopped_at: datetime | None
    unread: str | None = None


def known(database: Database, key: str) -> bool:
    """Whether any run was ever asked for in this scope, or it was paused before."""
    with database.transaction() as connection:
        found: bool = connection.execute(KNOWN, {"key": key}).scalar_one()
        return found


def pause(
    database: Database, key: str, *, actor: str, reason: str | None = None, stops_calls: bool = False
) -> Pause:
    """Once this has returned, no run of the scope is admitted until `resume`. Runs that hold a slot go on.

    With `stops_calls` they open no model call any more; those under way are cut by their gateway.
    """
    with database.transaction() as connection:
        connection.execute(IN_TURN)
        before = connection.execute(BEFORE, {"key": key}).one_or_none() or (None, None)
        now = connection.execute(PAUSE, {"key": key, "actor": actor, "stops": stops_calls}).one()
        changed = before[0] is None or (stops_calls and before[1] is None)
        stops = {"stops_calls": True} if stops_calls else {}
        audit(connection, "pause", key, actor, {"changed": changed, "reason": reason, **stops})
    return _told(database, key, changed, now)


def resume(database: Database, key: str, *, actor: str, reason: str | None = None) -> Pause:
    """Let the scope's runs start and call again; a scope that is not paused stays as it is."""
    with database.transaction() as connection:
        connection.execute(IN_TURN)
        before = connection.execute(BEFORE, {"key": key}).one_or_none() or (None, None)
        connection.execute(RESUME, {"key": key})
        connection.execute(LET_GO, {"key": key})
        audit(connection, "resume", key, actor, {"changed": before[0] is not None, "reason": reason})
    return _told(database, key, before[0] is not None, (before[0], None, before[1]))


def bells_after_resume(database: Database) -> Sequence[tuple[str, int]]:
    """How many bells each host may be given, so that work starts at once."""
    with database.transaction() as connection:
        return [(row.name, row.bells) for row in connection.execute(DUE) if row.bells > 0]


def _told(database: Database, key: str, changed: bool, row: Any) -> Pause:  # noqa: FBT001
    """Counted after the commit: a long count must hold up nobody, and a failed one denies nothing that is stored."""
    paused_at, paused_by, stopped_at = row
    try:
        with database.transaction() as connection:
            counts = connection.execute(STANDING, {"key": key}).one()
    except DatabaseUnavailable as error:
        return Pause(key, changed, paused_at, paused_by, None, None, None, stopped_at, str(error))
    return Pause(
        key, changed, paused_at, paused_by, counts.running, counts.waiting, counts.everything, stopped_at
    )
