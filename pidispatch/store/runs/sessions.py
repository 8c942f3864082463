"""Keep the session of a run that stopped at a cap, for as long as its task is kept."""

from sqlalchemy import BigInteger, Connection, LargeBinary, Text, bindparam, text

from pidispatch.domain.runs.session import KeptSession, NotKept
from pidispatch.store.database import Database

KEEP = text("""
WITH kept AS (
  INSERT INTO run_sessions (run_id, session, pi_version, expires_at)
  SELECT :run, :session, :pi_version, clock_timestamp() + interval '7 days' WHERE CAST(:session AS bytea) IS NOT NULL
  ON CONFLICT (run_id) DO NOTHING)
UPDATE runs SET session_bytes = :size, session_reason = coalesce(:reason, session_reason) WHERE id = :run
""").bindparams(
    bindparam("session", type_=LargeBinary),
    bindparam("pi_version", type_=Text),
    bindparam("size", type_=BigInteger),
    bindparam("reason", type_=Text),
)
KEPT = text("SELECT session, pi_version FROM run_sessions WHERE run_id = :run")
# The run that goes on with it may wait for longer than that.
FORGET_SESSIONS = text("""
DELETE FROM run_sessions s WHERE s.expires_at < clock_timestamp()
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.continues = s.run_id AND r.ended_at IS NULL)
""")


class Sessions:
    """The sessions that were kept of runs which stopped at a cap."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def kept(self, run_id: int) -> KeptSession | None:
        """The session that was kept of this run; None when none was, or it is deleted. Raises DatabaseUnavailable."""
        with self._database.transaction() as connection:
            row = connection.execute(KEPT, {"run": run_id}).one_or_none()
        return None if row is None else KeptSession(row.session, row.pi_version)


def keep(connection: Connection, run_id: int, session: KeptSession | NotKept) -> None:
    """Write it with the terminal record, or why there is none."""
    asked: dict[str, object] = {
        "run": run_id,
        "session": None,
        "pi_version": None,
        "size": None,
        "reason": None,
    }
    match session:
        case KeptSession(content, version):
            asked |= {"session": content, "pi_version": version, "size": len(content)}
        case NotKept(reason):
            asked["reason"] = reason
    connection.execute(KEEP, asked)
