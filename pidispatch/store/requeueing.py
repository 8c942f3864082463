"""Write a run that repeats one that has ended."""

from dataclasses import dataclass, replace

from sqlalchemy import text

from pidispatch.domain.identity import requeued_run_id
from pidispatch.domain.run import NewRun, State
from pidispatch.domain.task import cut_task
from pidispatch.errors import PidispatchError
from pidispatch.store.audit import audit
from pidispatch.store.database import Database
from pidispatch.store.submissions import add_run, kept

# The lock makes two requeues of one run take turns. What was asked in an earlier minute counts: within one minute the
# same request has the same number, and so the same name.
LOCK = text("""
SELECT r.public_id, r.state, coalesce(p.expires_at > clock_timestamp(), false) AS kept,
       (SELECT count(*) FROM runs q WHERE q.requeue_of = r.id
          AND q.created_at < date_trunc('minute', clock_timestamp())) AS earlier
FROM runs r LEFT JOIN run_payloads p ON p.run_id = r.id WHERE r.id = :id FOR NO KEY UPDATE OF r
""")
# A person asked for it: whoever runs the same by hand a moment later means another run, as after `run`.
TELL = text("""
INSERT INTO deliveries (source, delivery_id, event, subject, decision, run_id)
SELECT 'cli', public_id, 'requeue', subject, 'started', id FROM runs WHERE id = :run
ON CONFLICT (source, delivery_id) DO NOTHING
""")


class CannotRequeue(PidispatchError):
    """The run has not ended, or what it needs has been deleted."""


@dataclass(frozen=True, slots=True)
class Requeued:
    """`duplicate`: the same was asked within this minute, and that run stands."""

    public_id: str
    duplicate: bool


def requeue(database: Database, run_id: int, *, actor: str, task: bytes | None = None) -> Requeued:
    """Queue a copy of the run, with another task if one is given. Raises CannotRequeue."""
    with database.transaction() as connection:
        old = connection.execute(LOCK, {"id": run_id}).one()
        if old.state != State.ENDED:
            raise CannotRequeue(f"{old.public_id} has not ended: it is {old.state}")
        if not old.kept:
            raise CannotRequeue(
                f"{old.public_id}: its task and folder were deleted seven days after its end; ask anew with `pidispatch run`"
            )
        public_id = requeued_run_id(old.public_id, old.earlier, task)
        new = add_run(connection, _repeat(kept(connection, run_id), run_id, public_id, task))
        if new is None:
            return Requeued(public_id, duplicate=True)
        connection.execute(TELL, {"run": new})
        audit(connection, "requeue", old.public_id, actor, {"run": public_id, "task_given": task is not None})
    return Requeued(public_id, duplicate=False)


def _repeat(old: NewRun, run_id: int, public_id: str, task: bytes | None) -> NewRun:
    """It keeps its place in a chain: a repeat must not let an agent ask deeper.

    It is about the same, but another task in a folder is another matter.
    """
    repeat = replace(
        old, public_id=public_id, kinship=replace(old.kinship, requeue_of=run_id, continues=None)
    )
    if task is None:
        return repeat
    subject = None if old.kind == "local" else old.subject
    return replace(repeat, task=cut_task(task), task_bytes=len(task), subject=subject)
