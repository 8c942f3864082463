"""Put a figure right that came after its call was assumed."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text

from pidispatch.store.database import Database
from pidispatch.store.runs.costs import TURN
from pidispatch.store.runs.endings import USED, USED_FROM
from pidispatch.store.runs.ledger import settle_again

SETTLED_AS = "CASE WHEN CAST(:measured AS boolean) THEN 'settled' ELSE 'assumed' END"
# What was not measured is never more than the most that the call could come to.
SETTLED_AT = """
  CASE WHEN CAST(:measured AS boolean) OR CAST(:micros AS bigint) IS NULL THEN CAST(:micros AS bigint)
       ELSE least(CAST(:micros AS bigint), held_micros) END
"""
# Assumed while nobody saw its end.
NO_END = "c.state = 'assumed' AND c.status IS NULL"
LOCK_RUN = text(f"""
SELECT r.id FROM runs r WHERE r.id = (SELECT c.run_id FROM provider_calls c WHERE c.id = :id AND {NO_END})
FOR NO KEY UPDATE OF r
""")  # noqa: S608 - fixed words
# The call has an end from then on, so this happens once; its hold stays on record.
SETTLE_LATE = text(f"""
WITH before AS (
  SELECT id, run_id, attempt, counted_micros, counted_tokens, cost_micros AS micros,
         tokens_in + tokens_out + tokens_cache_read + tokens_cache_write AS tokens
  FROM provider_calls c WHERE id = :id AND {NO_END} FOR NO KEY UPDATE),
late AS (
  UPDATE provider_calls c SET state = {SETTLED_AS}, status = :status, stop_reason = :stop_reason, tokens_in = :tokens_in,
    tokens_out = :tokens_out, tokens_cache_read = :cache_read, tokens_cache_write = :cache_write,
    tokens_cache_write_1h = :cache_write_1h, tokens_reasoning = :reasoning, measured = :measured,
    cost_micros = {SETTLED_AT}, cost_class = :cost_class, price_version = :version
  FROM before WHERE c.id = before.id
  RETURNING c.id, c.counted_micros, c.counted_tokens, c.cost_micros AS micros,
            c.tokens_in + c.tokens_out + c.tokens_cache_read + c.tokens_cache_write AS tokens,
            {TURN}::int - 1 AS turns),
moved AS (
  UPDATE run_attempts a SET
    used_micros = a.used_micros + coalesce(late.counted_micros, 0) - coalesce(before.counted_micros, 0),
    used_tokens = a.used_tokens + late.counted_tokens - before.counted_tokens, used_turns = a.used_turns + late.turns
  FROM before, late WHERE a.run_id = before.run_id AND a.attempt = before.attempt)
INSERT INTO spend_adjustments (run_id, call_id, tokens_before, tokens_after, micros_before, micros_after, in_windows, at)
SELECT before.run_id, before.id, before.tokens, late.tokens, before.micros, late.micros,
       EXISTS (SELECT 1 FROM reservations v WHERE v.run_id = before.run_id AND v.state = 'settled'), clock_timestamp()
FROM before, late RETURNING in_windows
""")  # noqa: S608 - fixed words

# The record of a run that has ended stays as it is.
REFRESH_RUN = text(f"UPDATE runs SET {USED} FROM {USED_FROM} WHERE id = :id AND state <> 'ended'")  # noqa: S608


def settle_late(database: Database, end: Mapping[str, Any]) -> None:
    """`end` as for a call in time. A call that is settled already stays as it is. Lock order: run, call, windows."""
    with database.transaction() as connection:
        run_id = connection.execute(LOCK_RUN, {"id": end["id"]}).scalar_one_or_none()
        if run_id is None:
            return
        in_windows = connection.execute(SETTLE_LATE, end).scalar_one_or_none()
        if in_windows:
            settle_again(connection, run_id)
        connection.execute(REFRESH_RUN, {"id": run_id})
