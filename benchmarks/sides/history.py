"""A database with many ended runs, and waiting ones as they are asked for."""

from sides.admitting import HOST
from sqlalchemy import text

from pidispatch.store.database import Database

SCOPES, FOLDERS = 200, 1000
SETUP = """
INSERT INTO hosts (name, capacity) VALUES (:host, 1000000);
INSERT INTO scopes (key) SELECT 'folder:' || n FROM generate_series(0, :scopes - 1) AS n;
INSERT INTO scopes (key, "limit") SELECT 'inode:bench:' || n, 1 FROM generate_series(0, :folders - 1) AS n;
INSERT INTO spend_windows (scope, unit, period, starts_on)
SELECT '*', 'runs', 'day', (now() AT TIME ZONE 'UTC')::date - n FROM generate_series(0, 364) AS n;
INSERT INTO spend_windows (scope, unit, period, starts_on)
SELECT '*', 'runs', 'week', date_trunc('week', now() AT TIME ZONE 'UTC')::date - 7 * n FROM generate_series(0, 52) AS n
"""
ENDED = """
WITH added AS (
  INSERT INTO runs (public_id, target, scope, pinned_host, trigger_type, provider, model, image, state, outcome, result,
                    reason, attempt, epoch, host, created_at, queued_at, state_since, admitted_at, started_at, ended_at,
                    admission)
  SELECT 'local-' || md5(n::text), 'local:x', 'folder:' || n % :scopes, :host, 'cli', 'scripted', 'happy', 'i', 'ended',
         'completed', 'done-unverified', 'completed', 1, 6, :host, at, at, at, at, at, at + interval '5 minutes',
         jsonb_build_object('gates', jsonb_build_object('image', 'sha256'), 'windows', jsonb_build_array())
  FROM (SELECT n, now() - interval '1 hour' - n * (interval '360 days' / :runs) AS at
        FROM generate_series(1, :runs) AS n) AS made
  RETURNING id, admitted_at),
attempted AS (
  INSERT INTO run_attempts (run_id, attempt, host, container_id, go_at, outcome)
  SELECT id, 1, :host, md5(id::text), admitted_at, 'completed' FROM added)
INSERT INTO reservations (run_id, window_id, state, held, settled, closed_at)
SELECT added.id, w.id, 'settled', 1, 1, now() FROM added JOIN spend_windows w
  ON (w.period = 'day' AND w.starts_on = (added.admitted_at AT TIME ZONE 'UTC')::date)
  OR (w.period = 'week' AND w.starts_on = date_trunc('week', added.admitted_at AT TIME ZONE 'UTC')::date)
"""
WAITING = """
WITH added AS (
  INSERT INTO runs (public_id, target, scope, mutex, pinned_host, trigger_type)
  SELECT :name || n, 'local:x', 'folder:' || n % :scopes, 'inode:bench:' || n % :folders, :host, 'cli'
  FROM generate_series(1, :runs) AS n RETURNING id)
INSERT INTO run_payloads (run_id, folder, folder_given, task, task_bytes, event)
SELECT id, '/repos/x', '/repos/x', 'work', 4, '{}' FROM added
"""
# What was admitted ends, so that each round begins as the one before.
END_ALL = """
WITH ended AS (
  UPDATE runs SET state = 'ended', outcome = 'completed', result = 'none', reason = 'completed', ended_at = now()
  WHERE state = 'admitted' RETURNING id, mutex),
paid AS (DELETE FROM run_payloads p USING ended WHERE p.run_id = ended.id)
UPDATE reservations v SET state = 'settled', settled = held, closed_at = now() FROM ended WHERE v.run_id = ended.id;
UPDATE scopes SET occupied = 0 WHERE occupied > 0;
UPDATE spend_windows w SET used = (SELECT coalesce(sum(v.counted), 0) FROM reservations v WHERE v.window_id = w.id)
WHERE w.starts_on > current_date - 8
"""


def fill(database: Database, runs: int) -> None:
    """`runs` ended runs over a year, with their attempts and reservations, as a database that has lived."""
    asked = {"host": HOST, "scopes": SCOPES, "folders": FOLDERS, "runs": runs}
    with database.transaction() as connection:
        for statement in SETUP.split(";"):
            used = {key: value for key, value in asked.items() if f":{key}" in statement}
            connection.execute(text(statement), used)
        connection.execute(text(ENDED), {key: asked[key] for key in ("host", "scopes", "runs")})
    end_all(database)
    tidy(database)


def wait(database: Database, runs: int, name: str) -> None:
    with database.transaction() as connection:
        connection.execute(
            text(WAITING), {"host": HOST, "scopes": SCOPES, "folders": FOLDERS, "runs": runs, "name": name}
        )


def end_all(database: Database) -> None:
    with database.transaction() as connection:
        for statement in END_ALL.split(";"):
            connection.execute(text(statement))


def tidy(database: Database) -> None:
    """What autovacuum has long done in a database that has lived."""
    with database._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:  # noqa: SLF001
        connection.execute(text("VACUUM ANALYZE"))
