"""The statements of the admission transaction."""

from sqlalchemy import DateTime, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql import bindparam
from sqlalchemy.types import BigInteger, Integer, Text

from pidispatch.store.models import OCCUPYING_SQL
from pidispatch.store.startable import STARTABLE

# Priority with ageing (600 s of waiting are one step), scopes in turn, then age. The payload is read of the chosen alone.
# A run that somebody else is looking at or admitting at this moment is passed over.
CANDIDATES = text(f"""
WITH chosen AS MATERIALIZED (
  SELECT r.id {STARTABLE} AND NOT (r.id = ANY(:passed))
  ORDER BY floor((r.priority * 600 + extract(epoch FROM now() - r.queued_at)) / 600) DESC,
           s.last_started_at NULLS FIRST, r.queued_at, r.id
  LIMIT 1 FOR NO KEY UPDATE OF r SKIP LOCKED)
SELECT r.id, r.public_id, r.epoch, p.folder, r.scope, r.provider, r.model, r.image, r.max_turns, r.max_tokens,
       r.flow, r.attempt, coalesce(p.folder_given, p.folder), now(), r.one_shot,
       (SELECT w.public_id FROM one_shots o JOIN runs w ON w.id = o.run_id
        WHERE o.key = r.one_shot AND w.id <> r.id) AS spent_by
FROM chosen JOIN runs r ON r.id = chosen.id JOIN run_payloads p ON p.run_id = r.id
""").bindparams(bindparam("passed", type_=ARRAY(BigInteger)))  # noqa: S608 - fixed words

LOCK_RUN = text("""
SELECT r.id FROM runs r
WHERE r.id = :id AND r.epoch = :epoch AND r.state IN ('queued', 'deferred') FOR NO KEY UPDATE SKIP LOCKED
""")
ADD_SCOPES = text("""
INSERT INTO scopes (key, "limit") SELECT key, CASE WHEN key = :mutex THEN 1 END FROM unnest(:keys) AS asked (key)
ORDER BY key ON CONFLICT (key) DO NOTHING
""").bindparams(bindparam("keys", type_=ARRAY(Text)), bindparam("mutex", type_=Text))
LOCK_EVERYTHING = text("SELECT key, paused_at FROM scopes WHERE key = '*' FOR SHARE")
# The run first; without it no scope is waited for.
LOCK_RUN_AND_SCOPES = text("""
WITH mine AS MATERIALIZED (
  SELECT EXISTS (SELECT 1 FROM reservations v WHERE v.run_id = r.id AND v.state = 'held') AS paid
  FROM runs r WHERE r.id = :id AND r.epoch = :epoch AND r.state IN ('queued', 'deferred')
  FOR NO KEY UPDATE OF r SKIP LOCKED)
SELECT s.key, s.occupied, s."limit", s.paused_at, (SELECT paid FROM mine) AS paid
FROM scopes s WHERE s.key = ANY(:keys) AND EXISTS (SELECT 1 FROM mine) ORDER BY s.key FOR NO KEY UPDATE OF s
""").bindparams(bindparam("keys", type_=ARRAY(Text)))
BLOCKER = text(f"""
SELECT id FROM runs WHERE :key IN (mutex, scope, 'project:' || project) AND state IN ({OCCUPYING_SQL})
ORDER BY admitted_at LIMIT 1
""")  # noqa: S608 - fixed words
LOCK_HOST = text("SELECT 1 FROM hosts WHERE name = :host FOR NO KEY UPDATE")
# A statement of its own: one that had to wait for the lock would count what was true before the wait.
COUNT_HOST = text(f"""
SELECT count(*) FROM runs WHERE host = :host AND state IN ({OCCUPYING_SQL})
""")  # noqa: S608 - fixed words

# Where there is room, count the run in every window and say what each holds now; a refusal rolls back to the savepoint.
SAVE = text("SAVEPOINT windows")
UNDO = text("ROLLBACK TO SAVEPOINT windows")
COUNT_IN = text(f"""
INSERT INTO spend_windows (scope, unit, period, starts_on, used)
SELECT scope, unit, period,
       CASE period WHEN 'day' THEN (now() AT TIME ZONE 'UTC')::date
                   WHEN 'week' THEN date_trunc('week', now() AT TIME ZONE 'UTC')::date
                   ELSE date_trunc('month', now() AT TIME ZONE 'UTC')::date END, amount
FROM unnest(:scopes, :units, :periods, :amounts) AS asked (scope, unit, period, amount)
WHERE (SELECT count(*) FROM runs WHERE host = :host AND state IN ({OCCUPYING_SQL})) < :capacity
ON CONFLICT (scope, unit, period, starts_on) DO UPDATE SET used = spend_windows.used + excluded.used
RETURNING id, scope, unit, period, used
""").bindparams(  # noqa: S608 - fixed words
    bindparam("scopes", type_=ARRAY(Text)),
    bindparam("units", type_=ARRAY(Text)),
    bindparam("periods", type_=ARRAY(Text)),
    bindparam("amounts", type_=ARRAY(BigInteger)),
)

CLAIM = text("""
WITH moved AS (
  UPDATE runs SET state = 'admitted', epoch = epoch + 1, attempt = attempt + 1, host = :host, worker = :worker,
         provider = :provider, model = :model, image = :image, max_turns = :max_turns, max_tokens = :max_tokens,
         cost_cap_micros = :cost_cap, mutex = :mutex, project = :project, cause = NULL, not_before = NULL,
         blocked_by = NULL, admitted_at = now(), state_since = clock_timestamp(), deadline_at = NULL,
         admission = :facts
  WHERE id = :id AND epoch = :epoch RETURNING id, attempt, epoch),
attempted AS (
  INSERT INTO run_attempts (run_id, attempt, host, engine_id, image_id)
  SELECT id, attempt, :host, :engine_id, :image_id FROM moved),
reserved AS (
  INSERT INTO reservations (run_id, window_id, held)
  SELECT moved.id, w, amount FROM moved, unnest(:windows, :amounts) AS asked (w, amount)
  ON CONFLICT (run_id, window_id) DO UPDATE
    SET state = 'held', held = excluded.held, settled = NULL, closed_at = NULL),
occupied AS (
  UPDATE scopes SET occupied = occupied + 1, last_started_at = now() WHERE key = ANY(:keys))
SELECT attempt, epoch FROM moved
""").bindparams(
    bindparam("windows", type_=ARRAY(BigInteger)),
    bindparam("amounts", type_=ARRAY(BigInteger)),
    bindparam("keys", type_=ARRAY(Text)),
    bindparam("facts", type_=JSONB),
    bindparam("max_turns", type_=Integer),
    bindparam("max_tokens", type_=BigInteger),
    bindparam("cost_cap", type_=BigInteger),
    bindparam("mutex", type_=Text),
    bindparam("project", type_=Text),
    bindparam("engine_id", type_=Text),
)

DEFER = text("""
UPDATE runs SET state = 'deferred', epoch = epoch + 1, cause = :cause, mutex = coalesce(:mutex, mutex),
       project = coalesce(:project, project), not_before = :until, blocked_by = :blocked_by,
       state_since = clock_timestamp(), admission = coalesce(:facts, admission)
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')
""").bindparams(
    bindparam("until", type_=DateTime(timezone=True)),
    bindparam("blocked_by", type_=BigInteger),
    bindparam("mutex", type_=Text),
    bindparam("project", type_=Text),
    bindparam("facts", type_=JSONB),
)
REFUSE = text("""
UPDATE runs SET state = 'ended', epoch = epoch + 1, outcome = 'policy', result = 'none', reason = :reason, why = :why,
       provider = coalesce(provider, :provider), model = coalesce(model, :model), cause = NULL, not_before = NULL,
       blocked_by = NULL, ended_at = clock_timestamp(), state_since = clock_timestamp(),
       admission = coalesce(:facts, admission)
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')
""").bindparams(
    bindparam("facts", type_=JSONB),
    bindparam("why", type_=Text),
    bindparam("provider", type_=Text),
    bindparam("model", type_=Text),
)
# A scope made after the last `sync` has no bound yet, and all its waiters would be offered one by one.
SET_BOUND = text('UPDATE scopes SET "limit" = :bound WHERE key = :key')
SYNC_LIMITS = text("""
UPDATE scopes SET "limit" = asked.bound
FROM (SELECT s.key, w.bound FROM scopes s LEFT JOIN unnest(:keys, :bounds) AS w (key, bound) ON w.key = s.key
      WHERE s.key NOT LIKE 'inode:%' AND s.key <> '*') AS asked
WHERE scopes.key = asked.key AND scopes."limit" IS DISTINCT FROM asked.bound
""").bindparams(bindparam("keys", type_=ARRAY(Text)), bindparam("bounds", type_=ARRAY(Integer)))
SET_CAPACITY = text("UPDATE hosts SET capacity = :capacity WHERE name = :host AND capacity <> :capacity")
