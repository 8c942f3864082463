"""Write a run that somebody asked for: once, however often the same request arrives."""

from typing import Any

from sqlalchemy import BigInteger, Connection, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain.run import NewRun, State
from pidispatch.store.waits import add_wait

ADD_SCOPE = text('INSERT INTO scopes (key, "limit") VALUES (:key, :limit) ON CONFLICT (key) DO NOTHING')
ADD_RUN = text("""
INSERT INTO runs (public_id, kind, target, scope, mutex, pinned_host, trigger_type, trigger_id, trigger_index, flow,
                  command, provider, model, image, max_turns, max_tokens, priority, state, cause, not_before,
                  subject, one_shot, replica, replicas, cost_cap_micros, cost_cap_asked, allowed_models, models_asked,
                  excluded_tools, egress_hosts)
VALUES (:public_id, :kind, :target, :scope, :mutex, :pinned_host, :trigger_type, :trigger_id, :trigger_index, :flow,
        :command, :provider, :model, :image, :max_turns, :max_tokens, :priority, :state, :cause, :not_before,
        :subject, :one_shot, :replica, :replicas, :cost_cap_micros, :cost_cap_micros, :allowed_models, :allowed_models,
        :excluded_tools, CAST(:egress_hosts AS text[]))
ON CONFLICT (public_id) DO NOTHING RETURNING id
""").bindparams(
    bindparam("cost_cap_micros", type_=BigInteger),
    bindparam("allowed_models", type_=ARRAY(Text)),
    bindparam("excluded_tools", type_=ARRAY(Text)),
)
ADD_PAYLOAD = text("""
INSERT INTO run_payloads (run_id, folder, folder_given, task, task_bytes, title, body, event, skills_dir)
VALUES (:run, :folder, :folder_given, :task, :task_bytes, :title, :body, :event, :skills_dir)
""")


def add_run(connection: Connection, run: NewRun) -> int | None:
    """The new row's id; None, having written nothing, when a run of this public id exists."""
    connection.execute(ADD_SCOPE, {"key": run.scope, "limit": None})
    if run.mutex is not None:
        connection.execute(ADD_SCOPE, {"key": run.mutex, "limit": 1})
    run_id: int | None = connection.execute(ADD_RUN, values_of(run)).scalar_one_or_none()
    if run_id is not None:
        connection.execute(ADD_PAYLOAD, {"run": run_id, **payload_of(run)})
        if run.wait_for:
            add_wait(connection, run_id, run)
    return run_id


def values_of(run: NewRun) -> dict[str, Any]:
    """What `ADD_RUN` asks for."""
    return {
        "public_id": run.public_id,
        "kind": run.kind,
        "target": run.target,
        "scope": run.scope,
        "mutex": run.mutex,
        "pinned_host": run.pinned_host,
        "trigger_type": run.trigger_type,
        "trigger_id": run.trigger_id,
        "trigger_index": run.trigger_index,
        "flow": run.flow,
        "command": run.command,
        "provider": run.provider,
        "model": run.model,
        "image": run.image,
        "max_turns": run.max_turns,
        "max_tokens": run.max_tokens,
        "priority": run.priority,
        "state": State.QUEUED if run.cause is None else State.DEFERRED,
        "cause": run.cause,
        "not_before": run.not_before,
        "replica": run.replica,
        "replicas": run.replicas,
        "subject": run.subject,
        "one_shot": run.one_shot,
        "egress_hosts": list(run.egress_hosts) or None,
        "cost_cap_micros": run.cost_cap_micros,
        "allowed_models": None if run.allowed_models is None else list(run.allowed_models),
        "excluded_tools": None if run.excluded_tools is None else list(run.excluded_tools),
    }


def payload_of(run: NewRun) -> dict[str, Any]:
    """What `ADD_PAYLOAD` asks for besides the run's key."""
    return {
        "folder": run.folder,
        "folder_given": run.folder_given,
        "task": run.task,
        "task_bytes": run.task_bytes,
        "title": run.title,
        "body": run.body,
        "event": run.event,
        "skills_dir": run.skills_dir,
    }
