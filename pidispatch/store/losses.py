"""Count the workers that ended while they looked at a run that waits."""

from sqlalchemy import text

from pidispatch.domain import words
from pidispatch.domain.outcome import Again, End, took_its_worker
from pidispatch.ports import NotNow
from pidispatch.store.database import Database
from pidispatch.store.endings import END_RUN, SUM_USAGE, told
from pidispatch.store.ledger import close, expire_payload

LOCK_RUN = text(f"""
SELECT r.attempt + 1 AS attempt,
       (SELECT count(*) FROM run_attempts s WHERE s.run_id = r.id AND s.reason = '{words.WORKER_SILENT}') AS silent
FROM runs r WHERE r.id = :id AND r.epoch = :epoch AND r.state IN ('queued', 'deferred')
  FOR NO KEY UPDATE OF r SKIP LOCKED
""")  # noqa: S608 - fixed words
UNMOVED = text("SELECT 1 FROM runs WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')")
ADD_ATTEMPT = text("""
INSERT INTO run_attempts (run_id, attempt, host, ended_at, outcome, reason, why)
VALUES (:id, :attempt, :host, clock_timestamp(), 'never-started', :reason, :why)
""")
DEFER = text("""
UPDATE runs SET state = 'deferred', epoch = epoch + 1, attempt = :attempt, cause = :cause, blocked_by = NULL,
  not_before = clock_timestamp() + make_interval(secs => :delay), looked_at = NULL, state_since = clock_timestamp()
WHERE id = :id
""")
NUMBER = text("""
UPDATE runs SET state = 'queued', attempt = :attempt, cause = NULL, not_before = NULL, blocked_by = NULL WHERE id = :id
""")


class PostgresLosses:
    """Implements `ports.Losses`."""

    def __init__(self, database: Database, *, host: str) -> None:
        self._database = database
        self._host = host

    def lost_over(self, run_id: int, epoch: int) -> Again | End | NotNow | None:
        asked = {"id": run_id, "epoch": epoch}
        with self._database.transaction() as connection:
            run = connection.execute(LOCK_RUN, asked).one_or_none()
            if run is None:
                return NotNow() if connection.execute(UNMOVED, asked).one_or_none() else None
            at = {"id": run_id, "attempt": run.attempt}
            verdict = took_its_worker(run.silent)
            if isinstance(verdict, Again):
                evidence = {"host": self._host, "reason": verdict.cause, "why": None}
                connection.execute(ADD_ATTEMPT, {**at, **evidence})
                connection.execute(DEFER, {**at, "cause": verdict.cause, "delay": verdict.delay})
                return verdict
            evidence = {"host": self._host, "reason": verdict.reason, "why": verdict.why}
            connection.execute(ADD_ATTEMPT, {**at, **evidence})
            connection.execute(NUMBER, at)
            close(connection, run_id)
            connection.execute(SUM_USAGE, {"id": run_id})
            connection.execute(END_RUN, told(run_id, verdict, exit_code=None))
            expire_payload(connection, run_id)
            return verdict
