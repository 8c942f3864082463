"""Let an operator end a run: at once while it waits, by a request while it holds a slot."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Connection, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain import words
from pidispatch.domain.run import WAITING, State
from pidispatch.store.audit import audit
from pidispatch.store.database import Database
from pidispatch.store.endings import SUM_USAGE
from pidispatch.store.ledger import close, expire_payload
from pidispatch.store.runs import REQUEST_STOP
from pidispatch.store.waits import end_wait

WAITING_SQL = ", ".join(f"'{state}'" for state in WAITING)
KEPT_BACK_SECONDS = 30

# Admission passes over a row that is locked here; a row that it holds itself is waited for, and found admitted.
LOCK = text("SELECT public_id, state, host FROM runs WHERE id = :id FOR NO KEY UPDATE")
LOCK_FREE = text(f"{LOCK.text} SKIP LOCKED")
END_WAITING = text("""
UPDATE runs SET state = 'ended', epoch = epoch + 1, outcome = 'policy', result = 'none', reason = :reason, why = NULL,
       stop_reason = :reason, stop_requested_at = clock_timestamp(), cause = NULL, not_before = NULL, blocked_by = NULL,
       ended_at = clock_timestamp(), state_since = clock_timestamp()
WHERE id = :id
""")
# Those that spend come first. A slot that one of them frees must not start one that is to be cancelled too: whoever
# waits is marked as being looked at, until its turn comes.
LIVE = text(f"SELECT id FROM runs WHERE state <> 'ended' ORDER BY state IN ({WAITING_SQL}), id")  # noqa: S608
KEEP_BACK = text(f"""
UPDATE runs SET looked_at = clock_timestamp() + interval '{KEPT_BACK_SECONDS} seconds'
WHERE id IN (SELECT id FROM runs WHERE state IN ('queued', 'deferred') FOR NO KEY UPDATE SKIP LOCKED)
""")  # noqa: S608 - a number

ENDED = text("SELECT id FROM runs WHERE state = 'ended' AND id = ANY(:ids)").bindparams(
    bindparam("ids", type_=ARRAY(BigInteger))
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a cancel found: the run's `state` before it, and the host that must stop its box, None when none holds it."""

    run_id: int
    public_id: str
    state: State
    host: str | None

    @property
    def had_ended(self) -> bool:
        return self.state is State.ENDED


def cancel(database: Database, run_id: int, *, actor: str, reason: str | None = None) -> Asked:
    """Once this has returned, the run ends as cancelled by an operator, whatever its box does meanwhile.

    A run that waits has ended already, and has given back what it held; one that had ended stays as it was.
    """
    asked = _cancel(database, LOCK, run_id, actor=actor, reason=reason)
    assert asked is not None  # noqa: S101 - this one waits for the row
    return asked


def _cancel(
    database: Database, lock: TextClause, run_id: int, *, actor: str, reason: str | None
) -> Asked | None:
    with database.transaction() as connection:
        run = connection.execute(lock, {"id": run_id}).one_or_none()
        if run is None:
            return None
        state = State(run.state)
        asked = Asked(run_id, run.public_id, state, None if state in WAITING else run.host)
        if asked.had_ended:
            return asked
        if state in WAITING:
            end_waiting(connection, run_id, words.OPERATOR_CANCEL)
        else:
            connection.execute(REQUEST_STOP, {"id": run_id, "reason": words.OPERATOR_CANCEL})
        audit(connection, "cancel", run.public_id, actor, {"state": str(state), "reason": reason})
    return asked


def cancel_if_free(database: Database, run_id: int, *, actor: str, reason: str | None = None) -> Asked | None:
    """As `cancel`; None, changing nothing, where somebody holds the run's row: others need not wait for that one."""
    return _cancel(database, LOCK_FREE, run_id, actor=actor, reason=reason)


def live_runs(database: Database) -> Sequence[int]:
    """Every run that has not ended, those that hold a slot first; of the others none starts for half a minute."""
    with database.transaction() as connection:
        connection.execute(KEEP_BACK)
    with database.transaction() as connection:
        return [row.id for row in connection.execute(LIVE)]


def ended_of(database: Database, run_ids: Sequence[int]) -> Sequence[int]:
    """Those of the runs that have ended by now."""
    with database.transaction() as connection:
        return [row.id for row in connection.execute(ENDED, {"ids": list(run_ids)})]


def end_waiting(connection: Connection, run_id: int, reason: str) -> None:
    """End a run that waits, whose row the caller has locked: it gives back what it held, or settles what it spent."""
    close(connection, run_id)
    connection.execute(SUM_USAGE, {"id": run_id})
    connection.execute(END_WAITING, {"id": run_id, "reason": reason})
    end_wait(connection, run_id)
    expire_payload(connection, run_id)
