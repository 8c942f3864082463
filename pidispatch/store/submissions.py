"""Write a run that somebody asked for: once, however often the same request arrives."""

from sqlalchemy import text

from pidispatch.domain.run import NewRun
from pidispatch.store.database import Database
from pidispatch.store.waits import add_wait

KNOWN = text("SELECT EXISTS (SELECT 1 FROM runs WHERE public_id = :public_id)")
ADD_SCOPE = text('INSERT INTO scopes (key, "limit") VALUES (:key, :limit) ON CONFLICT (key) DO NOTHING')
ADD_RUN = text("""
INSERT INTO runs (public_id, kind, target, scope, mutex, pinned_host, trigger_type, flow, provider, model, image,
                  max_turns, max_tokens, priority)
VALUES (:public_id, 'local', :target, :scope, :mutex, :pinned_host, :trigger_type, :flow, :provider, :model, :image,
        :max_turns, :max_tokens, :priority)
ON CONFLICT (public_id) DO NOTHING RETURNING id
""")
ADD_PAYLOAD = text("""
INSERT INTO run_payloads (run_id, folder, folder_given, task, task_bytes, event)
VALUES (:run, :folder, :folder_given, :task, :task_bytes, :event)
""")


class PostgresSubmissions:
    """Implements `ports.Submissions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, public_id: str) -> bool:
        with self._database.transaction() as connection:
            found: bool = connection.execute(KNOWN, {"public_id": public_id}).scalar_one()
            return found

    def submit(self, run: NewRun) -> int | None:
        with self._database.transaction() as connection:
            connection.execute(ADD_SCOPE, {"key": run.scope, "limit": None})
            if run.mutex is not None:
                connection.execute(ADD_SCOPE, {"key": run.mutex, "limit": 1})
            run_id: int | None = connection.execute(
                ADD_RUN,
                {
                    "public_id": run.public_id,
                    "target": run.target,
                    "scope": run.scope,
                    "mutex": run.mutex,
                    "pinned_host": run.pinned_host,
                    "trigger_type": run.trigger_type,
                    "flow": run.flow,
                    "provider": run.provider,
                    "model": run.model,
                    "image": run.image,
                    "max_turns": run.max_turns,
                    "max_tokens": run.max_tokens,
                    "priority": run.priority,
                },
            ).scalar_one_or_none()
            if run_id is not None:
                connection.execute(
                    ADD_PAYLOAD,
                    {
                        "run": run_id,
                        "folder": run.folder,
                        "folder_given": run.folder_given,
                        "task": run.task,
                        "task_bytes": run.task_bytes,
                        "event": run.event,
                    },
                )
                if run.wait_for:
                    add_wait(connection, run_id, run)
        return run_id
