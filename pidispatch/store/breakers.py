"""Read the breakers of triggers, and let an operator close one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.errors import PidispatchError
from pidispatch.store.audit import audit
from pidispatch.store.database import Database
from pidispatch.store.rows import record

# Who counts endings holds this until its transaction ends, so an operator's word comes before or after a count.
TURN = "hashtextextended('pidispatch breakers', 0)"

COLUMNS = "trigger_id, outcome, reason, failures, opened_at, backoff_seconds, probe_at, probe, changed_at"
OF = text(f"SELECT {COLUMNS} FROM breakers WHERE trigger_id = ANY(:ids)").bindparams(  # noqa: S608 - fixed words
    bindparam("ids", type_=ARRAY(Text))
)
OF_RUN = text(f"""
SELECT {COLUMNS} FROM breakers WHERE trigger_id = (SELECT trigger_id FROM runs WHERE id = :run)
""")  # noqa: S608 - fixed words
OPEN = text(f"SELECT {COLUMNS} FROM breakers WHERE opened_at IS NOT NULL ORDER BY opened_at, trigger_id")  # noqa: S608
IN_TURN = text(f"SELECT pg_advisory_xact_lock({TURN})")
FORGET_UNCOUNTED = text("DELETE FROM uncounted_endings WHERE trigger_id = :id")
CLOSE = text(f"DELETE FROM breakers WHERE trigger_id = :id RETURNING {COLUMNS}")  # noqa: S608
KNOWN = text("SELECT EXISTS (SELECT 1 FROM runs WHERE trigger_id = :id)")


@dataclass(frozen=True, slots=True)
class BreakerRecord:
    """A trigger whose last `failures` runs ended at one step, by `outcome` and `reason`.

    While `opened_at` is set it is held back: nothing of it starts but one probe from `probe_at` on; `probe` is the run
    that tries now. `backoff_seconds` is the wait between two probes.
    """

    trigger_id: str
    outcome: str
    reason: str
    failures: int
    opened_at: datetime | None
    backoff_seconds: int
    probe_at: datetime | None
    probe: str | None
    changed_at: datetime

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None


class NoSuchTrigger(PidispatchError):
    """No run of a trigger of this id ever ended, so there is nothing to close."""


def breakers_of(database: Database, ids: Sequence[str]) -> Mapping[str, BreakerRecord]:
    """By id; a trigger whose last run went well, or that never ran, is left out. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        rows = connection.execute(OF, {"ids": list(ids)})
        return {row.trigger_id: record(BreakerRecord, row) for row in rows}


def breaker_of_run(database: Database, run_id: int) -> BreakerRecord | None:
    """How the trigger of a run stands; None as for `breakers_of`. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        row = connection.execute(OF_RUN, {"run": run_id}).one_or_none()
        return None if row is None else record(BreakerRecord, row)


def read_open(connection: Connection) -> Sequence[BreakerRecord]:
    return [record(BreakerRecord, row) for row in connection.execute(OPEN)]


def close(
    database: Database, trigger_id: str, *, actor: str, reason: str | None = None
) -> BreakerRecord | None:
    """Forget what was counted of the trigger, ended runs that wait to be counted too, so that it starts again.

    Returns what stood there; None when nothing did. Raises NoSuchTrigger, DatabaseUnavailable.
    """
    with database.transaction() as connection:
        connection.execute(IN_TURN)
        connection.execute(FORGET_UNCOUNTED, {"id": trigger_id})
        row = connection.execute(CLOSE, {"id": trigger_id}).one_or_none()
        if row is None and not connection.execute(KNOWN, {"id": trigger_id}).scalar_one():
            raise NoSuchTrigger(f"no run of a trigger {trigger_id!r} was ever started")
        found = None if row is None else record(BreakerRecord, row)
        changed = found is not None and found.is_open
        audit(connection, "breaker-close", trigger_id, actor, {"changed": changed, "reason": reason})
    return found
