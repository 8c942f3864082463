"""Move a run from admitted to its box, and read where it stands; every write repeats its epoch."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Boolean, Connection, Text, TextClause, bindparam, text

from pidispatch.domain import words
from pidispatch.domain.run import AttemptFacts, Claim, Job, Occupant, Workspace
from pidispatch.domain.session import FRESH, Staged
from pidispatch.errors import StaleEpoch
from pidispatch.store.database import Database
from pidispatch.store.rows import record
from pidispatch.store.startable import OCCUPYING_SQL
from pidispatch.store.submissions import ASK_SQL, TERMS_SQL

PREPARING = text(f"""
UPDATE runs r SET state = 'preparing', epoch = r.epoch + 1, state_since = clock_timestamp()
FROM run_payloads p
WHERE p.run_id = r.id AND r.id = :id AND r.epoch = :epoch AND r.state = 'admitted'
RETURNING r.epoch, p.folder, p.task, p.task_bytes, p.event, r.target, r.trigger_type, {ASK_SQL}, {TERMS_SQL},
          r.chain_depth, r.continues, CASE WHEN r.kind = 'local' THEN r.mutex END AS mutex, r.folder_owner AS owner
""")  # noqa: S608 - names of fields
BOXED = text("""
WITH moved AS (
  UPDATE runs SET state = 'running', epoch = epoch + 1, state_since = clock_timestamp(),
         session_resumed = coalesce(:resumed, session_resumed), session_reason = coalesce(:session_reason, session_reason)
  WHERE id = :id AND epoch = :epoch AND state = 'preparing' RETURNING id, attempt, epoch),
boxed AS (
  UPDATE run_attempts a SET container_id = :container, container_name = :name, commit_before = :commit,
         boxed_at = clock_timestamp()
  FROM moved WHERE a.run_id = moved.id AND a.attempt = moved.attempt)
SELECT epoch FROM moved
""").bindparams(bindparam("resumed", type_=Boolean), bindparam("session_reason", type_=Text))
FINISHING = text("""
UPDATE runs SET state = 'finishing', epoch = epoch + 1,
       state_since = CASE state WHEN 'finishing' THEN state_since ELSE clock_timestamp() END
WHERE id = :id AND epoch = :epoch AND state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing')
RETURNING epoch
""")
STOPPING = text("""
UPDATE runs SET state = 'stopping', epoch = epoch + 1, stop_reason = coalesce(stop_reason, :reason),
       state_since = CASE state WHEN 'stopping' THEN state_since ELSE clock_timestamp() END
WHERE id = :id AND epoch = :epoch AND state IN ('running', 'stopping') RETURNING epoch
""")
# A stop is asked for without an epoch: it is true of whatever attempt is current. It moves the epoch, so that whoever
# was about to write another ending finds its claim stale and judges again. An operator's wish goes before any other.
REQUEST_STOP = text(f"""
UPDATE runs SET stop_requested_at = clock_timestamp(), stop_reason = :reason, epoch = epoch + 1
WHERE id = :id AND state IN ({OCCUPYING_SQL})
  AND (stop_reason IS NULL OR (:reason = '{words.OPERATOR_CANCEL}' AND stop_reason <> :reason))
""")  # noqa: S608 - fixed words
# Since when it should stop: somebody's wish or its deadline, whichever came first. What had ended by itself is only
# slow to be finished.
STOP_ASKED_SQL = f"""
coalesce(least(r.stop_requested_at,
               CASE WHEN (r.stop_reason = '{words.DEADLINE}' OR r.state IN ('running', 'stopping'))
                 AND r.deadline_at <= clock_timestamp() THEN r.deadline_at END),
         CASE r.state WHEN 'stopping' THEN r.state_since END)
"""
OCCUPANTS = f"""
SELECT r.id AS run_id, r.public_id, r.state, r.attempt, r.epoch, a.container_id, r.worker, w.heartbeat_at AS worker_beat, r.state_since,
       a.go_at, r.deadline_at, r.stop_reason, a.engine_id, w.place, {STOP_ASKED_SQL} AS stop_asked_at
FROM runs r LEFT JOIN run_attempts a ON a.run_id = r.id AND a.attempt = r.attempt
LEFT JOIN workers w ON w.id = r.worker
WHERE r.state IN ({OCCUPYING_SQL})
"""  # noqa: S608
WORKSPACE = """
SELECT r.id AS run_id, r.public_id, p.folder, r.mutex, r.folder_owner AS owner FROM runs r JOIN run_payloads p ON p.run_id = r.id
WHERE r.kind = 'local' AND r.mutex IS NOT NULL AND p.folder IS NOT NULL
"""
WORKSPACES = text(f"{WORKSPACE} AND r.host = :host AND r.state = 'running' AND r.stop_reason IS NULL")
WORKSPACE_OF = text(f"{WORKSPACE} AND r.id = :id")
FACTS = text(f"""
SELECT r.epoch, r.state, r.attempt, r.public_id, r.stop_reason, a.container_id, a.container_name,
       a.go_at IS NOT NULL AS got_go, coalesce(a.report_verified, false) AS report_verified,
       a.reported ->> 'reason' AS report_reason, coalesce(a.reported ->> 'message', '') <> '' AS report_said,
       coalesce(a.reported -> 'notes', '[]') AS report_notes, l.stop_reason AS last_stop,
       (SELECT count(*) FROM provider_calls c WHERE c.run_id = r.id) AS calls,
       (SELECT count(*) FROM run_attempts g WHERE g.run_id = r.id AND g.go_at IS NOT NULL) AS charged,
       (SELECT count(*) FROM run_attempts s WHERE s.run_id = r.id AND s.reason = '{words.WORKER_SILENT}') AS silent_attempts,
       (SELECT count(*) FROM run_attempts s WHERE s.run_id = r.id AND s.reason = '{words.NEVER_STARTED}') AS unstarted_attempts,
       (SELECT c.status FROM provider_calls c WHERE c.run_id = r.id AND c.attempt = r.attempt AND c.state <> 'held'
        ORDER BY c.settled_at DESC, c.id DESC LIMIT 1) AS last_status,
       (SELECT count(*) FROM provider_calls c WHERE c.run_id = r.id AND c.attempt = r.attempt
        AND (c.tokens_in > 0 OR c.tokens_out > 0 OR c.state = 'assumed')) AS billed,
       (SELECT count(*) FROM provider_calls c WHERE c.run_id = r.id AND c.state = 'held') AS open_calls,
       CASE WHEN a.refused_at > coalesce(l.opened_at, '-infinity') THEN a.refused_reason
            WHEN l.stop_reason = 'length' THEN l.lowered_by
            WHEN l.stop_reason = 'aborted' AND EXISTS (
              SELECT 1 FROM scopes s WHERE s.key IN ('*', r.scope, 'project:' || r.project)
                AND s.stopped_at BETWEEN l.opened_at AND l.settled_at) THEN '{words.STOPPED}' END AS refused
FROM runs r LEFT JOIN run_attempts a ON a.run_id = r.id AND a.attempt = r.attempt
LEFT JOIN LATERAL (
  SELECT c.opened_at, c.settled_at, c.stop_reason, c.lowered_by FROM provider_calls c
  WHERE c.run_id = r.id AND c.attempt = r.attempt ORDER BY c.id DESC LIMIT 1) l ON true
WHERE r.id = :id
""")  # noqa: S608 - fixed words


class PostgresRuns:
    """Implements `ports.Runs`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def preparing(self, claim: Claim) -> Job:
        with self._database.transaction() as connection:
            # Losing this write in a crash loses nothing: an admitted run is taken back just as a preparing one is.
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            row = connection.execute(PREPARING, {"id": claim.run_id, "epoch": claim.epoch}).one_or_none()
        if row is None:
            raise StaleEpoch(claim.run_id, claim.epoch)
        return record(Job, row, claim=_at(claim, row.epoch))

    def boxed(
        self,
        claim: Claim,
        *,
        container_id: str,
        name: str,
        commit_before: str | None = None,
        session: Staged = FRESH,
    ) -> Claim:
        return self._advance(
            BOXED,
            claim,
            container=container_id,
            name=name,
            commit=commit_before,
            resumed=None if session.reason is None else session.resumed,
            session_reason=session.reason,
        )

    def stopping(self, claim: Claim, *, reason: str) -> Claim:
        return self._advance(STOPPING, claim, reason=reason)

    def finishing(self, claim: Claim) -> Claim:
        return self._advance(FINISHING, claim)

    def request_stop(self, run_id: int, *, reason: str) -> bool:
        with self._database.transaction() as connection:
            return connection.execute(REQUEST_STOP, {"id": run_id, "reason": reason}).rowcount == 1

    def occupants(self, host: str) -> Sequence[Occupant]:
        with self._database.transaction() as connection:
            rows = connection.execute(text(f"{OCCUPANTS} AND r.host = :host ORDER BY r.id"), {"host": host})
            return [record(Occupant, row) for row in rows]

    def occupant(self, run_id: int) -> Occupant | None:
        with self._database.transaction() as connection:
            row = connection.execute(text(f"{OCCUPANTS} AND r.id = :id"), {"id": run_id}).one_or_none()
        return None if row is None else record(Occupant, row)

    def workspaces(self, host: str) -> Sequence[Workspace]:
        with self._database.transaction() as connection:
            return [record(Workspace, row) for row in connection.execute(WORKSPACES, {"host": host})]

    def workspace(self, run_id: int) -> Workspace | None:
        with self._database.transaction() as connection:
            row = connection.execute(WORKSPACE_OF, {"id": run_id}).one_or_none()
        return None if row is None else record(Workspace, row)

    def facts(self, run_id: int) -> AttemptFacts:
        with self._database.transaction() as connection:
            row = connection.execute(FACTS, {"id": run_id}).one()
        return record(AttemptFacts, row, claim=Claim(run_id, row.public_id, row.attempt, row.epoch))

    def _advance(self, statement: TextClause, claim: Claim, **values: Any) -> Claim:
        with self._database.transaction() as connection:
            epoch = _epoch(connection, statement, claim, values)
        if epoch is None:
            raise StaleEpoch(claim.run_id, claim.epoch)
        return _at(claim, epoch)


def _epoch(connection: Connection, statement: TextClause, claim: Claim, values: dict[str, Any]) -> int | None:
    asked = {"id": claim.run_id, "epoch": claim.epoch, **values}
    found: int | None = connection.execute(statement, asked).scalar_one_or_none()
    return found


def _at(claim: Claim, epoch: int) -> Claim:
    return Claim(claim.run_id, claim.public_id, claim.attempt, epoch)
