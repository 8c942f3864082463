"""End an attempt: the terminal transaction, or back into the queue."""

from typing import Any

from sqlalchemy import Connection, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain.runs.chaintree import Harvest
from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Claim, Outcome
from pidispatch.domain.runs.session import KeptSession, NotKept
from pidispatch.errors import StaleEpoch
from pidispatch.store.database import Database
from pidispatch.store.runs.chains import plant
from pidispatch.store.runs.costs import COST, COST_CLASS, PRICES, TURN
from pidispatch.store.runs.ledger import close, expire_payload, reopen
from pidispatch.store.runs.sessions import keep

# Not FOR UPDATE: a waiter that is deferred behind this run takes FOR KEY SHARE on it while it holds the scope.
LOCK_RUN = text("""
SELECT r.scope, r.mutex, 'project:' || r.project AS project,
       EXISTS (SELECT 1 FROM provider_calls c WHERE c.run_id = r.id AND c.state = 'held') AS calling
FROM runs r WHERE r.id = :id AND r.epoch = :epoch AND r.state = 'finishing' FOR NO KEY UPDATE OF r
""")
LOCK_SCOPES = text(
    "SELECT key FROM scopes WHERE key IN (:scope, :mutex, :project) ORDER BY key FOR NO KEY UPDATE"
)
FREE_SCOPES = text("UPDATE scopes SET occupied = occupied - 1 WHERE key IN (:scope, :mutex, :project)")
SUM_USAGE = text(f"""
INSERT INTO run_usage (run_id, provider, model, calls, failed_calls, estimated_calls, tokens_in, tokens_out,
                       tokens_cache_read, tokens_cache_write, tokens_reasoning, cost_micros, cost_class, price_version)
SELECT run_id, provider, model, count(*), count(*) FILTER (WHERE status IS NULL OR status NOT BETWEEN 200 AND 299),
       count(*) FILTER (WHERE NOT measured OR state = 'assumed'), sum(tokens_in), sum(tokens_out),
       sum(tokens_cache_read), sum(tokens_cache_write), sum(tokens_reasoning), {COST}, {COST_CLASS}, {PRICES}
FROM provider_calls c WHERE run_id = :id GROUP BY run_id, provider, model
ON CONFLICT (run_id, provider, model) DO UPDATE SET
  calls = excluded.calls, failed_calls = excluded.failed_calls, estimated_calls = excluded.estimated_calls,
  tokens_in = excluded.tokens_in, tokens_out = excluded.tokens_out, tokens_cache_read = excluded.tokens_cache_read,
  tokens_cache_write = excluded.tokens_cache_write, tokens_reasoning = excluded.tokens_reasoning,
  cost_micros = excluded.cost_micros, cost_class = excluded.cost_class, price_version = excluded.price_version
""")  # noqa: S608 - fixed words
# What the run used is the sum over all its attempts, by the gateway's rows alone.
USED = """
  calls = used.calls, turns = used.turns, tokens_in = used.tokens_in, tokens_out = used.tokens_out,
  tokens_cache_read = used.cache_read, tokens_cache_write = used.cache_write, cost_micros = used.cost_micros,
  cost_class = used.cost_class
"""
USED_FROM = f"""
  (SELECT count(c.id) AS calls,
          CASE WHEN bool_or(a.go_at IS NOT NULL)
               THEN count(c.id) FILTER (WHERE {TURN}) END AS turns,
          coalesce(sum(c.tokens_in), 0) AS tokens_in, coalesce(sum(c.tokens_out), 0) AS tokens_out,
          coalesce(sum(c.tokens_cache_read), 0) AS cache_read, coalesce(sum(c.tokens_cache_write), 0) AS cache_write,
          {COST} AS cost_micros, {COST_CLASS} AS cost_class
   FROM run_attempts a LEFT JOIN provider_calls c ON c.run_id = a.run_id AND c.attempt = a.attempt
   WHERE a.run_id = :id) AS used
"""  # noqa: S608 - fixed words
END_RUN = text(f"""
UPDATE runs r SET state = 'ended', epoch = r.epoch + 1, outcome = :outcome, result = :result, reason = :reason,
  why = :why, remarks = :remarks, exit_code = :exit_code, ended_at = clock_timestamp(), state_since = clock_timestamp(),
  reported = (SELECT reported FROM run_attempts a WHERE a.run_id = r.id AND a.attempt = r.attempt),
  session_resumed = coalesce(r.session_resumed, false), {USED}
FROM {USED_FROM} WHERE r.id = :id
""").bindparams(bindparam("remarks", type_=ARRAY(Text)))  # noqa: S608 - fixed text
QUEUE_RUN = text(f"""
UPDATE runs r SET state = 'deferred', epoch = r.epoch + 1, cause = :cause,
  not_before = clock_timestamp() + make_interval(secs => :delay), worker = NULL, host = NULL, deadline_at = NULL,
  state_since = clock_timestamp(), {USED}
FROM {USED_FROM} WHERE r.id = :id
""")  # noqa: S608
END_ATTEMPT = text("""
UPDATE run_attempts a SET ended_at = clock_timestamp(), exited_at = :exited_at, exit_code = :exit_code,
  oom_killed = :oom_killed, outcome = CASE WHEN a.go_at IS NULL THEN 'never-started' ELSE :outcome END,
  reason = :reason, why = :why
FROM runs r WHERE r.id = :id AND a.run_id = r.id AND a.attempt = r.attempt
""")


def told(run_id: int, verdict: End, *, exit_code: int | None) -> dict[str, Any]:
    """What `END_RUN` asks for."""
    return {
        "id": run_id,
        "outcome": str(verdict.outcome),
        "result": str(verdict.result),
        "reason": verdict.reason,
        "why": verdict.why,
        "remarks": list(verdict.remarks) or None,
        "exit_code": exit_code,
    }


class CallsOpen(Exception):
    """A model call of the run is not settled yet."""


class Endings:
    """The last transaction of an attempt. Raises StaleEpoch, DatabaseUnavailable. Lock order: run, the first run of its chain, scopes by key, windows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def end(
        self,
        claim: Claim,
        verdict: End,
        box: BoxEnd,
        *,
        harvest: Harvest | None = None,
        session: KeptSession | NotKept | None = None,
    ) -> bool:
        """Write the terminal record. Returns False, changing nothing, while a model call is still open."""
        try:
            with self._database.transaction() as connection:
                _free_slot(connection, claim, harvest, session)
                close(connection, claim.run_id)
                connection.execute(SUM_USAGE, {"id": claim.run_id})
                _end_attempt(
                    connection, claim, box, outcome=verdict.outcome, reason=verdict.reason, why=verdict.why
                )
                connection.execute(END_RUN, told(claim.run_id, verdict, exit_code=box.exit_code))
                expire_payload(connection, claim.run_id)
        except CallsOpen:
            return False
        return True

    def again(self, claim: Claim, verdict: Again, box: BoxEnd) -> bool:
        """Queue the run for another attempt. Returns False, changing nothing, while a model call is open."""
        try:
            with self._database.transaction() as connection:
                _free_slot(connection, claim)
                reopen(connection, claim.run_id)
                _end_attempt(connection, claim, box, outcome=Outcome.FAILED, reason=verdict.cause, why=None)
                connection.execute(
                    QUEUE_RUN, {"id": claim.run_id, "cause": verdict.cause, "delay": verdict.delay}
                )
        except CallsOpen:
            return False
        return True


def _free_slot(
    connection: Connection,
    claim: Claim,
    harvest: Harvest | None = None,
    session: KeptSession | NotKept | None = None,
) -> None:
    run = connection.execute(LOCK_RUN, {"id": claim.run_id, "epoch": claim.epoch}).one_or_none()
    if run is None:
        raise StaleEpoch(claim.run_id, claim.epoch)
    if run.calling:
        raise CallsOpen
    if harvest is not None:
        plant(connection, claim.run_id, harvest)  # it may lock another run, which comes before any scope
    if session is not None:
        keep(connection, claim.run_id, session)  # megabytes: before any lock that others wait for
    scopes = {"scope": run.scope, "mutex": run.mutex, "project": run.project}
    connection.execute(LOCK_SCOPES, scopes)
    connection.execute(FREE_SCOPES, scopes)


def _end_attempt(
    connection: Connection, claim: Claim, box: BoxEnd, *, outcome: Outcome, reason: str, why: str | None
) -> None:
    connection.execute(
        END_ATTEMPT,
        {
            "id": claim.run_id,
            "exited_at": box.exited_at,
            "exit_code": box.exit_code,
            "oom_killed": box.oom_killed,
            "outcome": str(outcome),
            "reason": reason,
            "why": why,
        },
    )
