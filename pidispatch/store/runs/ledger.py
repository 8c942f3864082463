"""Close what a run reserved: settle it, or give it back; both once, however often they are asked."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.store.runs import oneshots

# Windows are locked in one order everywhere, that of `domain.limits.lock_order`: narrow scopes first, the global rows
# last; by code point, whatever the database's collation.
LOCK_WINDOWS = text("""
SELECT w.id FROM spend_windows w JOIN reservations v ON v.window_id = w.id
WHERE v.run_id = ANY(:runs) AND v.state = :state
ORDER BY (CASE WHEN w.scope = '*' THEN 3 WHEN w.scope LIKE 'model:%' THEN 2 WHEN w.scope LIKE 'project:%' THEN 1 ELSE 0
          END), w.scope COLLATE "C", w.unit COLLATE "C", w.period COLLATE "C", w.starts_on
FOR NO KEY UPDATE OF w
""").bindparams(bindparam("runs", type_=ARRAY(BigInteger)))
RELEASE = text("""
WITH closed AS (
  UPDATE reservations SET state = 'released', closed_at = clock_timestamp()
  WHERE run_id = :run AND state = 'held' RETURNING window_id, held)
UPDATE spend_windows w SET used = w.used - closed.held FROM closed WHERE w.id = closed.window_id
""")
# Runs settle as they were held; tokens and dollars at what each call counts: what was measured, else the most that it
# may have come to. Where neither is known the hold is kept whole, or what is known if that is more.
SETTLE = text("""
WITH spent AS (
  SELECT coalesce(sum(counted_tokens), 0)::bigint AS tokens,
         coalesce(sum(counted_micros), 0)::bigint AS known, count(*) = count(counted_micros) AS exact
  FROM provider_calls WHERE run_id = :run),
amounts AS (
  SELECT v.window_id, v.counted AS before,
         CASE WHEN w.unit = 'runs' THEN v.held WHEN w.unit = 'tokens' THEN spent.tokens
              WHEN NOT spent.exact THEN greatest(v.held, spent.known)
              WHEN w.scope LIKE 'model:%' THEN coalesce((
                SELECT sum(c.counted_micros) FROM provider_calls c
                WHERE c.run_id = :run AND 'model:' || lower(c.provider || '/' || c.model) = lower(w.scope)), 0)
              ELSE spent.known END AS settled
  FROM reservations v JOIN spend_windows w ON w.id = v.window_id, spent
  WHERE v.run_id = :run AND v.state = :state),
closed AS (
  UPDATE reservations v SET state = 'settled', settled = a.settled, closed_at = coalesce(v.closed_at, clock_timestamp())
  FROM amounts a WHERE v.run_id = :run AND v.window_id = a.window_id AND v.state = :state)
UPDATE spend_windows w SET used = w.used - a.before + a.settled
FROM amounts a WHERE w.id = a.window_id AND a.settled <> a.before
""")
GOT_GO = text("SELECT EXISTS (SELECT 1 FROM run_attempts WHERE run_id = :run AND go_at IS NOT NULL)")
EXPIRE_PAYLOAD = text(
    "UPDATE run_payloads SET expires_at = clock_timestamp() + interval '7 days' WHERE run_id = :run"
)


def close(connection: Connection, run_id: int) -> None:
    """A run ends: anything that may have spent keeps what it reserved, anything else gives it back."""
    if connection.execute(GOT_GO, {"run": run_id}).scalar_one():
        settle(connection, run_id)
    else:
        give_back(connection, run_id)


def lock_windows(connection: Connection, runs: Sequence[int], *, state: str = "held") -> None:
    """Whoever closes several runs locks the windows of all of them first: one by one they would come out of order."""
    connection.execute(LOCK_WINDOWS, {"runs": list(runs), "state": state})


def reopen(connection: Connection, run_id: int) -> None:
    """A run will be tried again: one that may have spent keeps its place, so that it is paid for once."""
    if not connection.execute(GOT_GO, {"run": run_id}).scalar_one():
        give_back(connection, run_id)


def give_back(connection: Connection, run_id: int) -> None:
    """Release everything the run still holds, its one-shot last. A second call finds nothing held."""
    lock_windows(connection, [run_id])
    connection.execute(RELEASE, {"run": run_id})
    oneshots.give_back(connection, run_id)


def settle(connection: Connection, run_id: int) -> None:
    """Make what the run holds final, in every window. A second call finds nothing held."""
    lock_windows(connection, [run_id])
    connection.execute(SETTLE, {"run": run_id, "state": "held"})


def settle_again(connection: Connection, run_id: int) -> None:
    """A call of the run counts something else now: put the windows right that the run has settled, and no other."""
    lock_windows(connection, [run_id], state="settled")
    connection.execute(SETTLE, {"run": run_id, "state": "settled"})


def expire_payload(connection: Connection, run_id: int) -> None:
    """The run has ended: its untrusted bytes are kept seven more days, for a requeue."""
    connection.execute(EXPIRE_PAYLOAD, {"run": run_id})
