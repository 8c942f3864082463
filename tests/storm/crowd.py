"""Many waiting runs at once, written in one statement."""

from sqlalchemy import text

from tests.store.builders import HOST

SCOPES = "INSERT INTO scopes (key) SELECT DISTINCT key FROM ({rows}) AS named (key) ON CONFLICT DO NOTHING"
RUNS = """
WITH added AS (
  INSERT INTO runs (public_id, target, scope, mutex, pinned_host, trigger_type, priority, queued_at)
  SELECT :name || n, 'local:x', {scope}, {mutex}, :host, 'cli', :priority,
         now() - make_interval(secs => :waited) + n * interval '1 microsecond'
  FROM generate_series(1, :runs) AS n RETURNING id, substr(public_id, length(:name) + 1) AS n)
INSERT INTO run_payloads (run_id, folder, folder_given, task, task_bytes, event)
SELECT id, convert_to({folder}, 'UTF8'), convert_to({folder}, 'UTF8'), 'work', 4, '{{}}' FROM added
"""


def a_crowd(database, *, runs, scope, mutex, name="crowd-", folder="'/repos/crowd'", priority=0, waited=0.0):
    """`scope`, `mutex` and `folder` are SQL over `n`, the number of the run. The oldest comes first."""
    with database.transaction() as connection:
        for key in (scope, mutex):
            rows = f"SELECT {key} FROM generate_series(1, :runs) AS n"
            connection.execute(text(SCOPES.format(rows=rows)), {"runs": runs})
        connection.execute(
            text(RUNS.format(scope=scope, mutex=mutex, folder=folder)),
            {"name": name, "host": HOST, "priority": priority, "waited": waited, "runs": runs},
        )
    with database.transaction() as connection:
        connection.execute(text("ANALYZE runs, run_payloads, scopes"))
