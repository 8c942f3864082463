"""Keep the gateway's rows: who may pass its doors, the go, the report, and every model call."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pidispatch.domain.providers.calls import (
    NOTHING_KNOWN,
    Budget,
    CallEnd,
    CallOpened,
    CallRefused,
    Cost,
    Ticket,
    Worst,
)
from pidispatch.store.database import Database
from pidispatch.store.pipeline import alone
from pidispatch.store.rows import record
from pidispatch.store.runs.adjustments import SETTLED_AS, SETTLED_AT, settle_late
from pidispatch.store.runs.costs import TURN
from pidispatch.store.tables import OCCUPYING_SQL

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


TICKETS = f"""
SELECT id AS run_id, public_id, attempt, coalesce(provider, '') AS provider, coalesce(egress_hosts, '{{}}') AS egress FROM runs WHERE state IN ({OCCUPYING_SQL})
"""  # noqa: S608 - fixed words

# The clock of a run starts with its go. The container must be the one recorded for the attempt: a second box that a
# stopped starter made later presents another id and gets nothing. The epoch moves, so that whoever was about to take
# the silent box back finds its claim stale. The run is locked first, as by its end.
GIVE_GO = text("""
WITH live AS MATERIALIZED (
  SELECT r.id, r.attempt FROM runs r
  WHERE r.id = :run AND r.attempt = :attempt AND r.state = 'running' AND r.stop_reason IS NULL
  FOR NO KEY UPDATE OF r),
given AS (
  UPDATE run_attempts a SET go_at = clock_timestamp() FROM live
  WHERE a.run_id = live.id AND a.attempt = live.attempt AND a.go_at IS NULL
    AND length(:container) >= 12 AND starts_with(a.container_id, :container)
  RETURNING a.run_id)
UPDATE runs SET epoch = epoch + 1, started_at = coalesce(started_at, clock_timestamp()),
       deadline_at = clock_timestamp() + make_interval(secs => :timeout)
FROM given WHERE runs.id = given.run_id
""")
IS_PREPARING = text("SELECT 1 FROM runs WHERE id = :run AND attempt = :attempt AND state = 'preparing'")
KEEP_REPORT = text("""
UPDATE run_attempts SET reported = :report, report_verified = :verified
WHERE run_id = :run AND attempt = :attempt AND report_verified IS DISTINCT FROM true
""").bindparams(bindparam("report", type_=JSONB))
KEEP_TELEMETRY = text("""
UPDATE run_attempts SET telemetry = :said, report_verified = coalesce(report_verified, false),
  reported = CASE WHEN report_verified THEN reported ELSE :report END
WHERE run_id = :run AND attempt = :attempt
""").bindparams(bindparam("said", type_=JSONB), bindparam("report", type_=JSONB))

OPEN_CALL = text("SELECT call, may_micros, may_tokens, refused FROM call_open(:asked)")
# The sums of the attempt move with the call, so that whoever opens the next one never adds up all that were.
SETTLE_CALL = text(f"""
WITH settled AS (
  UPDATE provider_calls c SET state = {SETTLED_AS}, settled_at = clock_timestamp(), status = :status,
    stop_reason = :stop_reason, tokens_in = :tokens_in, tokens_out = :tokens_out, tokens_cache_read = :cache_read,
    tokens_cache_write = :cache_write, tokens_cache_write_1h = :cache_write_1h, tokens_reasoning = :reasoning,
    measured = :measured, cost_micros = {SETTLED_AT}, cost_class = :cost_class, price_version = :version
  WHERE id = :id AND state = 'held'
  RETURNING run_id, attempt, counted_micros, counted_tokens, {TURN}::int AS turns)
UPDATE run_attempts a SET used_micros = a.used_micros + coalesce(s.counted_micros, 0),
  used_tokens = a.used_tokens + s.counted_tokens, used_turns = a.used_turns + s.turns
FROM settled s WHERE a.run_id = s.run_id AND a.attempt = s.attempt RETURNING a.run_id
""")  # noqa: S608 - fixed words
BUDGET = text("""
SELECT (a.micros + coalesce(o.micros, 0))::bigint AS micros, r.cost_cap_micros AS cap_micros,
       (a.tokens + coalesce(o.tokens, 0))::bigint AS tokens, r.max_tokens AS cap_tokens, a.turns::int AS turns,
       r.max_turns AS cap_turns, coalesce(o.micros, 0)::bigint AS held_micros, coalesce(o.tokens, 0)::bigint AS held_tokens
FROM runs r,
  LATERAL (SELECT coalesce(sum(used_micros), 0) AS micros, coalesce(sum(used_tokens), 0) AS tokens,
                  coalesce(sum(used_turns), 0) AS turns FROM run_attempts WHERE run_id = r.id) a,
  LATERAL (SELECT sum(held_micros) AS micros, sum(held_tokens) AS tokens
           FROM provider_calls WHERE run_id = r.id AND state = 'held') o
WHERE r.id = :run
""")
# Nobody knows what became of it, so it counts what it held. All calls are locked before any attempt.
ASSUME = """
WITH assumed AS (
  UPDATE provider_calls SET state = 'assumed', settled_at = clock_timestamp(), measured = false,
    cost_micros = held_micros, cost_class = 'assumed'
  WHERE state = 'held' AND {which} RETURNING run_id, attempt, counted_micros, counted_tokens),
sums AS (
  SELECT run_id, attempt, coalesce(sum(counted_micros), 0) AS micros, sum(counted_tokens) AS tokens, count(*) AS calls
  FROM assumed GROUP BY run_id, attempt),
moved AS (
  UPDATE run_attempts a SET used_micros = a.used_micros + s.micros, used_tokens = a.used_tokens + s.tokens,
    used_turns = a.used_turns + s.calls
  FROM sums s WHERE a.run_id = s.run_id AND a.attempt = s.attempt)
SELECT coalesce(sum(calls), 0)::int FROM sums
"""
ASSUME_OPEN = text(ASSUME.format(which="host = :host AND opened_at < :before"))
ASSUME_RUN = text(ASSUME.format(which="run_id = :run"))


class PostgresTickets:
    """Implements `ports.Tickets`, and keeps what a box said of itself. `timeout` is how many seconds a run may take from its go."""

    def __init__(self, database: Database, *, timeout: int) -> None:
        self._database = database
        self._timeout = timeout

    def occupying(self, host: str) -> Sequence[Ticket]:
        with self._database.transaction() as connection:
            rows = connection.execute(text(f"{TICKETS} AND host = :host ORDER BY id"), {"host": host})
            return [record(Ticket, row) for row in rows]

    def ticket(self, run_id: int) -> Ticket | None:
        with self._database.transaction() as connection:
            row = connection.execute(text(f"{TICKETS} AND id = :id"), {"id": run_id}).one_or_none()
        return None if row is None else record(Ticket, row)

    def give_go(self, run_id: int, attempt: int, container: str) -> bool:
        asked = {"run": run_id, "attempt": attempt, "container": container, "timeout": self._timeout}
        with self._database.transaction() as connection:
            return connection.execute(GIVE_GO, asked).rowcount == 1

    def is_preparing(self, run_id: int, attempt: int) -> bool:
        with self._database.transaction() as connection:
            return (
                connection.execute(IS_PREPARING, {"run": run_id, "attempt": attempt}).one_or_none()
                is not None
            )

    def keep_report(self, run_id: int, attempt: int, report: dict[str, Any], *, verified: bool) -> None:
        asked = {"run": run_id, "attempt": attempt, "report": report, "verified": verified}
        with self._database.transaction() as connection:
            connection.execute(KEEP_REPORT, asked)

    def keep_telemetry(self, run_id: int, attempt: int, said: dict[str, Any]) -> None:
        """Keep what a box's exit line said; its code, reason and turns stand in for a report where no signed one is.

        Raises DatabaseUnavailable.
        """
        report = {name: said.get(name) for name in ("code", "reason", "turns")}
        asked = {"run": run_id, "attempt": attempt, "said": said, "report": report}
        with self._database.transaction() as connection:
            connection.execute(KEEP_TELEMETRY, asked)

    def assume_calls(self, run_id: int) -> int:
        """No gateway answers, or none knows of them: turn this run's open calls into `assumed`. Raises DatabaseUnavailable."""
        with self._database.transaction() as connection:
            assumed: int = connection.execute(ASSUME_RUN, {"run": run_id}).scalar_one()
            return assumed


class PostgresCallLedger:
    """Implements `ports.CallLedger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_call(
        self, run_id: int, attempt: int, *, provider: str, model: str, api: str, worst: Worst = NOTHING_KNOWN
    ) -> CallOpened | CallRefused:
        asked = {"run": run_id, "attempt": attempt, "provider": provider, "model": model, "api": api}
        asked |= asdict(worst)
        row = alone(self._database, OPEN_CALL, {"asked": Jsonb(asked)})[0]
        if row.refused is not None:
            return CallRefused(row.refused)
        return CallOpened(row.call, row.may_micros, row.may_tokens)

    def settle_call(self, call_id: int, end: CallEnd, cost: Cost | None = None) -> None:
        asked = {
            "id": call_id,
            "status": end.status,
            "stop_reason": end.stop_reason,
            "tokens_in": end.tokens_in,
            "tokens_out": end.tokens_out,
            "cache_read": end.cache_read,
            "cache_write": end.cache_write,
            "reasoning": end.reasoning,
            "measured": end.measured,
            "cache_write_1h": end.cache_write_1h,
            "micros": None if cost is None else cost.micros,
            "cost_class": None if cost is None else str(cost.cost_class),
            "version": None if cost is None else cost.version,
        }
        if not alone(self._database, SETTLE_CALL, asked):
            settle_late(self._database, asked)

    def budget(self, run_id: int) -> Budget | None:
        with self._database.transaction() as connection:
            row = connection.execute(BUDGET, {"run": run_id}).one_or_none()
        return None if row is None else record(Budget, row)

    def assume_open(self, host: str, opened_before: datetime) -> int:
        with self._database.transaction() as connection:
            asked = {"host": host, "before": opened_before}
            assumed: int = connection.execute(ASSUME_OPEN, asked).scalar_one()
            return assumed
