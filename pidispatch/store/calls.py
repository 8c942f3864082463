"""Keep the gateway's rows: who may pass its doors, the go, the report, and every model call."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam

from pidispatch.ports import NOTHING_KNOWN, Budget, CallEnd, CallOpened, CallRefused, Cost, Ticket, Worst
from pidispatch.store.database import Database
from pidispatch.store.models import OCCUPYING_SQL

TICKETS = f"""
SELECT id, public_id, attempt, coalesce(provider, ''), egress_hosts FROM runs WHERE state IN ({OCCUPYING_SQL})
"""  # noqa: S608 - fixed words

# The clock of a run starts with its go. The container must be the one recorded for the attempt: a second box that a
# stopped starter made later presents another id and gets nothing. The epoch moves, so that whoever was about to take
# the silent box back finds its claim stale.
GIVE_GO = text("""
WITH given AS (
  UPDATE run_attempts a SET go_at = clock_timestamp() FROM runs r
  WHERE r.id = a.run_id AND a.run_id = :run AND a.attempt = :attempt AND r.attempt = a.attempt
    AND r.state = 'running' AND r.stop_reason IS NULL AND a.go_at IS NULL
    AND length(:container) >= 12 AND starts_with(a.container_id, :container)
  RETURNING a.run_id)
UPDATE runs SET epoch = epoch + 1, started_at = coalesce(started_at, clock_timestamp()),
       deadline_at = clock_timestamp() + make_interval(secs => :timeout)
FROM given WHERE runs.id = given.run_id
""")
KEEP_REPORT = text("""
UPDATE run_attempts SET reported = :report, report_verified = :verified
WHERE run_id = :run AND attempt = :attempt AND report_verified IS DISTINCT FROM true
""").bindparams(bindparam("report", type_=JSONB))

# FOR SHARE makes a call and the end of its run take turns, so that no call slips in behind the last look.
OPEN_CALL = text("""
INSERT INTO provider_calls (run_id, attempt, host, provider, model, api)
SELECT r.id, r.attempt, r.host, :provider, :model, :api
FROM runs r JOIN run_attempts a ON a.run_id = r.id AND a.attempt = r.attempt
WHERE r.id = :run AND r.attempt = :attempt AND r.state = 'running' AND r.stop_reason IS NULL AND a.go_at IS NOT NULL
FOR SHARE OF r
RETURNING id
""")
SETTLE_CALL = text("""
UPDATE provider_calls SET state = 'settled', settled_at = clock_timestamp(), status = :status,
  stop_reason = :stop_reason, tokens_in = :tokens_in, tokens_out = :tokens_out, tokens_cache_read = :cache_read,
  tokens_cache_write = :cache_write, tokens_cache_write_1h = :cache_write_1h, tokens_reasoning = :reasoning,
  measured = :measured, cost_micros = :micros, cost_class = :cost_class, price_version = :version
WHERE id = :id AND state = 'held'
""")
BUDGET = text("""
SELECT coalesce(sum(CASE WHEN c.state = 'held' THEN c.held_micros ELSE c.cost_micros END), 0)::bigint, r.cost_cap_micros,
       coalesce(sum(CASE WHEN c.state = 'held' THEN c.held_tokens
                    ELSE c.tokens_in + c.tokens_out + c.tokens_cache_read + c.tokens_cache_write END), 0)::bigint,
       r.max_tokens, count(*) FILTER (WHERE c.stop_reason IN ('stop', 'tool_use', 'length')), r.max_turns,
       coalesce(sum(c.held_micros) FILTER (WHERE c.state = 'held'), 0)::bigint,
       coalesce(sum(c.held_tokens) FILTER (WHERE c.state = 'held'), 0)::bigint
FROM runs r LEFT JOIN provider_calls c ON c.run_id = r.id WHERE r.id = :run GROUP BY r.id
""")
ASSUME_OPEN = text("""
UPDATE provider_calls SET state = 'assumed', settled_at = clock_timestamp(), measured = false
WHERE host = :host AND state = 'held' AND opened_at < :before
""")
ASSUME_RUN = text("""
UPDATE provider_calls SET state = 'assumed', settled_at = clock_timestamp(), measured = false
WHERE run_id = :run AND state = 'held'
""")


class PostgresTickets:
    """Implements `ports.Tickets` and `ports.Reports`. `timeout` is how many seconds a run may take from its go."""

    def __init__(self, database: Database, *, timeout: int) -> None:
        self._database = database
        self._timeout = timeout

    def occupying(self, host: str) -> Sequence[Ticket]:
        with self._database.transaction() as connection:
            rows = connection.execute(text(f"{TICKETS} AND host = :host ORDER BY id"), {"host": host})
            return [_ticket(row) for row in rows]

    def ticket(self, run_id: int) -> Ticket | None:
        with self._database.transaction() as connection:
            row = connection.execute(text(f"{TICKETS} AND id = :id"), {"id": run_id}).one_or_none()
        return None if row is None else _ticket(row)

    def give_go(self, run_id: int, attempt: int, container: str) -> bool:
        asked = {"run": run_id, "attempt": attempt, "container": container, "timeout": self._timeout}
        with self._database.transaction() as connection:
            return connection.execute(GIVE_GO, asked).rowcount == 1

    def keep_report(self, run_id: int, attempt: int, report: dict[str, Any], *, verified: bool) -> None:
        asked = {"run": run_id, "attempt": attempt, "report": report, "verified": verified}
        with self._database.transaction() as connection:
            connection.execute(KEEP_REPORT, asked)

    def assume_calls(self, run_id: int) -> int:
        with self._database.transaction() as connection:
            return connection.execute(ASSUME_RUN, {"run": run_id}).rowcount


def _ticket(row: Any) -> Ticket:
    return Ticket(row[0], row[1], row[2], row[3], egress=tuple(row[4] or ()))


class PostgresCallLedger:
    """Implements `ports.CallLedger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_call(
        self, run_id: int, attempt: int, *, provider: str, model: str, api: str, worst: Worst = NOTHING_KNOWN
    ) -> CallOpened | CallRefused:
        del worst  # next: held in one function call
        asked = {"run": run_id, "attempt": attempt, "provider": provider, "model": model, "api": api}
        with self._database.transaction() as connection:
            call: int | None = connection.execute(OPEN_CALL, asked).scalar_one_or_none()
        return CallRefused("closed") if call is None else CallOpened(call)

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
        with self._database.transaction() as connection:
            connection.execute(SETTLE_CALL, asked)

    def budget(self, run_id: int) -> Budget | None:
        with self._database.transaction() as connection:
            row = connection.execute(BUDGET, {"run": run_id}).one_or_none()
        return None if row is None else Budget(*row)

    def assume_open(self, host: str, opened_before: datetime) -> int:
        with self._database.transaction() as connection:
            return connection.execute(ASSUME_OPEN, {"host": host, "before": opened_before}).rowcount
