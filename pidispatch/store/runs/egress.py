"""Keep what runs did outside of their boxes, a bounded number of rows for each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from pidispatch.domain.egress.allowlist import ELSEWHERE, MOST_HOSTS, EgressUse, Reason
from pidispatch.store.database import Database
from pidispatch.store.rows import record

if TYPE_CHECKING:  # a reading command has no use for the ports
    from pidispatch.domain.egress.allowlist import EgressUse

LIVES = text("SELECT 1 FROM runs WHERE id = :run FOR KEY SHARE")
KNOWN = text("SELECT host, port, allowed, reason FROM egress_uses WHERE run_id = :run")
ADD = text("""
INSERT INTO egress_uses AS e (run_id, host, port, allowed, reason, connections, bytes_up, bytes_down, first_at, last_at)
VALUES (:run, :host, :port, :allowed, :reason, :connections, :up, :down,
        clock_timestamp() - make_interval(secs => :first_ago), clock_timestamp() - make_interval(secs => :last_ago))
ON CONFLICT (run_id, host, port, allowed, reason) DO UPDATE SET connections = e.connections + excluded.connections,
  bytes_up = e.bytes_up + excluded.bytes_up, bytes_down = e.bytes_down + excluded.bytes_down,
  first_at = least(e.first_at, excluded.first_at), last_at = greatest(e.last_at, excluded.last_at)
""")
OF_RUN = text("""
SELECT host, port, allowed, reason, connections, bytes_up, bytes_down, first_at, last_at
FROM egress_uses WHERE run_id = :id ORDER BY allowed DESC, (host = '*'), first_at, host, port
""")

_Key = tuple[str, int, bool, str]


@dataclass(frozen=True, slots=True)
class EgressRecord:
    """What a run did at one host: `allowed` and connected, or refused for the reason. `host` `*` is all others."""

    host: str
    port: int
    allowed: bool
    reason: str
    connections: int
    bytes_up: int
    bytes_down: int
    first_at: datetime
    last_at: datetime


class PostgresEgressUses:
    """Implements `ports.EgressUses`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run_id: int, uses: "Sequence[EgressUse]") -> None:
        with self._database.transaction() as connection:
            if not uses or connection.execute(LIVES, {"run": run_id}).one_or_none() is None:
                return
            known: set[_Key] = {tuple(row) for row in connection.execute(KNOWN, {"run": run_id})}
            for use in uses:
                kept = _within_bounds(use, known)
                known.add(_key(kept))
                connection.execute(ADD, _values(kept))


def egress_of(connection: Connection, run_id: int) -> list[EgressRecord]:
    return [record(EgressRecord, row) for row in connection.execute(OF_RUN, {"id": run_id})]


def _within_bounds(use: "EgressUse", known: set[_Key]) -> "EgressUse":
    # Each kind by itself: a run that asks for a thousand made-up names must not hide where it went.
    of_its_kind = sum(allowed == use.allowed for _, _, allowed, _ in known)
    if _key(use) in known or of_its_kind < MOST_HOSTS:
        return use
    return replace(use, host=ELSEWHERE.host, port=ELSEWHERE.port, reason=str(Reason.OTHER))


def _key(use: "EgressUse") -> _Key:
    return use.host, use.port, use.allowed, use.reason


def _values(use: "EgressUse") -> dict[str, object]:
    return {
        "run": use.run_id,
        "host": use.host,
        "port": use.port,
        "allowed": use.allowed,
        "reason": use.reason,
        "connections": use.connections,
        "up": use.bytes_up,
        "down": use.bytes_down,
        "first_ago": use.first_ago,
        "last_ago": use.last_ago,
    }
