"""Write a run that goes on where another one stopped at a cap."""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import text

from pidispatch.domain.identity import granted_run_id
from pidispatch.domain.landing import stopped_at
from pidispatch.domain.money import dollars
from pidispatch.domain.run import NewRun, State
from pidispatch.errors import PidispatchError
from pidispatch.store.audit import audit
from pidispatch.store.database import Database
from pidispatch.store.submissions import add_runs, kept

# The lock makes two grants of one run take turns. `living` goes on now; `further` did, and has itself stopped at a cap.
LOCK = text("""
SELECT r.public_id, r.state, r.outcome, r.reason, r.why, r.session_reason,
       coalesce(p.expires_at > clock_timestamp(), false) AS task_kept,
       coalesce(s.expires_at > clock_timestamp(), false) AS session_kept,
       (SELECT count(*) FROM runs c WHERE c.continues = r.id) AS earlier,
       (SELECT c.public_id FROM runs c WHERE c.continues = r.id AND c.state <> 'ended' ORDER BY c.id LIMIT 1) AS living,
       (SELECT c.public_id FROM runs c JOIN run_sessions k ON k.run_id = c.id AND k.expires_at > clock_timestamp()
        WHERE c.continues = r.id ORDER BY c.id DESC LIMIT 1) AS further
FROM runs r LEFT JOIN run_payloads p ON p.run_id = r.id LEFT JOIN run_sessions s ON s.run_id = r.id
WHERE r.id = :id FOR NO KEY UPDATE OF r
""")
# A person asked for it, as after `requeue`.
TELL = text("""
INSERT INTO deliveries (source, delivery_id, event, subject, decision, run_id)
SELECT 'cli', public_id, 'grant', subject, 'started', id FROM runs WHERE id = :run
""")


class CannotGrant(PidispatchError):
    """The run did not stop at a cap of its own, goes on already, or nothing is kept of it."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The run that goes on."""

    run_id: int
    public_id: str


def grant(database: Database, run_id: int, *, micros: int, actor: str) -> Granted:
    """Queue a run that goes on with this one's session and folder, and may spend this much. Raises CannotGrant."""
    with database.transaction() as connection:
        old = connection.execute(LOCK, {"id": run_id}).one()
        if (problem := _problem(old)) is not None:
            raise CannotGrant(f"{old.public_id} {problem}")
        public_id = granted_run_id(old.public_id, old.earlier)
        new = add_runs(connection, [_further(kept(connection, run_id), run_id, public_id, micros)])[public_id]
        connection.execute(TELL, {"run": new})
        audit(connection, "grant", old.public_id, actor, {"run": public_id, "dollars": dollars(micros)})
    return Granted(new, public_id)


def _further(old: NewRun, run_id: int, public_id: str, micros: int) -> NewRun:
    """Turns and tokens may be used anew, as much as before. The money is what was granted, also for what is made of it."""
    ask = replace(old.ask, cost_cap_micros=micros)
    kinship = replace(old.kinship, requeue_of=None, continues=run_id)
    return replace(old, public_id=public_id, ask=ask, kinship=kinship)


def _problem(old: Any) -> str | None:
    """Why it cannot go on, and the way out."""
    if old.state != State.ENDED:
        return f"has not ended: it is {old.state}; what stopped at a cap can go on"
    again = f"`pidispatch requeue {old.public_id}` starts it anew"
    if stopped_at(old.outcome, old.reason, old.why) is None:
        return f"did not stop at a cap of its own, it ended {old.outcome}: {old.reason}; {again}"
    if old.living is not None:
        return f"goes on already, as {old.living}; one run at a time may"
    if old.further is not None:
        return f"went on as {old.further}, which stopped at a cap too: grant that one more"
    if not old.task_kept:
        return "cannot go on: its task and session were deleted seven days after its end; ask anew with `pidispatch run`"
    if not old.session_kept:
        return f"cannot go on: its session is not kept ({old.session_reason or 'deleted'}); {again}"
    return None
