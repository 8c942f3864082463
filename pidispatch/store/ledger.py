"""Close what a run reserved: settle it, or give it back; both once, however often they are asked."""

from sqlalchemy import Connection, text

# Windows are locked in one order everywhere: narrow scopes first, the global rows last.
LOCK_WINDOWS = text("""
SELECT w.id FROM spend_windows w JOIN reservations v ON v.window_id = w.id
WHERE v.run_id = :run AND v.state = 'held' ORDER BY (w.scope = '*'), w.scope, w.unit, w.period, w.starts_on
FOR UPDATE OF w
""")
RELEASE = text("""
WITH closed AS (
  UPDATE reservations SET state = 'released', closed_at = clock_timestamp()
  WHERE run_id = :run AND state = 'held' RETURNING window_id, held)
UPDATE spend_windows w SET used = w.used - closed.held FROM closed WHERE w.id = closed.window_id
""")
SETTLE_RUNS = text("""
UPDATE reservations v SET state = 'settled', settled = v.held, closed_at = clock_timestamp()
FROM spend_windows w WHERE w.id = v.window_id AND w.unit = 'runs' AND v.run_id = :run AND v.state = 'held'
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


def reopen(connection: Connection, run_id: int) -> None:
    """A run will be tried again: one that may have spent keeps its place, so that it is paid for once."""
    if not connection.execute(GOT_GO, {"run": run_id}).scalar_one():
        give_back(connection, run_id)


def give_back(connection: Connection, run_id: int) -> None:
    """Release everything the run still holds. A second call finds nothing held."""
    connection.execute(LOCK_WINDOWS, {"run": run_id})
    connection.execute(RELEASE, {"run": run_id})


def settle(connection: Connection, run_id: int) -> None:
    """Make what the run holds final. `used` does not change: a settled run counts as it did while held."""
    connection.execute(SETTLE_RUNS, {"run": run_id})


def expire_payload(connection: Connection, run_id: int) -> None:
    """The run has ended: its untrusted bytes are kept seven more days, for a requeue."""
    connection.execute(EXPIRE_PAYLOAD, {"run": run_id})
