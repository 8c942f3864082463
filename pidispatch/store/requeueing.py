"""Write a run that repeats one that has ended."""

from dataclasses import dataclass

from sqlalchemy import LargeBinary, text
from sqlalchemy.sql import bindparam

from pidispatch.domain.identity import requeued_run_id
from pidispatch.domain.run import State
from pidispatch.domain.task import cut_task
from pidispatch.errors import PidispatchError
from pidispatch.store.audit import audit
from pidispatch.store.database import Database

# The lock makes two requeues of one run take turns. What was asked in an earlier minute counts: within one minute the
# same request has the same number, and so the same name.
LOCK = text("""
SELECT r.public_id, r.state, coalesce(p.expires_at > clock_timestamp(), false) AS kept,
       (SELECT count(*) FROM runs q WHERE q.requeue_of = r.id
          AND q.created_at < date_trunc('minute', clock_timestamp())) AS earlier
FROM runs r LEFT JOIN run_payloads p ON p.run_id = r.id WHERE r.id = :id FOR NO KEY UPDATE OF r
""")
# Provider, model, image, turns and tokens are repeated as they were used; every other limit is that in force when the copy starts.
# It keeps its place in a chain: a repeat must not let an agent ask deeper. It is about the same, but another task in a
# folder is another matter; and it spends no one-shot. What bounded it was asked for, and bounds the copy too.
ADD_RUN = text("""
INSERT INTO runs (public_id, kind, target, scope, mutex, pinned_host, trigger_type, trigger_id, trigger_index, flow,
                  command, provider, model, image, max_turns, max_tokens, priority, parent_id, root_id, chain_depth, subject, requeue_of,
                  cost_cap_micros, cost_cap_asked, allowed_models, models_asked, excluded_tools, egress_hosts)
SELECT :public_id, kind, target, scope, mutex, pinned_host, trigger_type, trigger_id, trigger_index, flow,
       command, provider, model, image, max_turns, max_tokens, priority, parent_id, root_id, chain_depth,
       CASE WHEN kind <> 'local' OR NOT :other_task THEN subject END, id,
       cost_cap_asked, cost_cap_asked, models_asked, models_asked, excluded_tools, egress_hosts
FROM runs WHERE id = :id
ON CONFLICT (public_id) DO NOTHING RETURNING id
""")
ADD_PAYLOAD = text("""
INSERT INTO run_payloads (run_id, folder, folder_given, task, task_bytes, title, body, event, skills_dir)
SELECT :run, folder, folder_given, coalesce(:task, task), coalesce(:task_bytes, task_bytes), title, body, event, skills_dir
FROM run_payloads WHERE run_id = :id
""").bindparams(bindparam("task", type_=LargeBinary))
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
        new: int | None = connection.execute(
            ADD_RUN, {"id": run_id, "public_id": public_id, "other_task": task is not None}
        ).scalar_one_or_none()
        if new is None:
            return Requeued(public_id, duplicate=True)
        connection.execute(
            ADD_PAYLOAD,
            {
                "id": run_id,
                "run": new,
                "task": None if task is None else cut_task(task),
                "task_bytes": None if task is None else len(task),
            },
        )
        connection.execute(TELL, {"run": new})
        audit(connection, "requeue", old.public_id, actor, {"run": public_id, "task_given": task is not None})
    return Requeued(public_id, duplicate=False)
