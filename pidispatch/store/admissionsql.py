"""The statements of the admission transaction."""

from sqlalchemy import DateTime, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql import bindparam
from sqlalchemy.types import BigInteger, Integer, Text

from pidispatch.store.breakercount import HOLDS_BACK
from pidispatch.store.startable import OCCUPYING_SQL, ONLY_HELD, STARTABLE
from pidispatch.store.submissions import ASK_SQL

# Priority with ageing (600 s of waiting are one step), scopes in turn, then age. The payload is read of the chosen alone.
# Who looks says so in the row, or all who look at the same time would check one run, and all but one in vain; a worker
# that dies meanwhile holds nobody up for long. Nothing depends on the mark, so its commit waits for no disk.
CANDIDATES = text(f"""
WITH chosen AS MATERIALIZED (
  SELECT r.id {STARTABLE} AND NOT (r.id = ANY(:passed))
    AND (r.looked_at IS NULL OR r.looked_at < clock_timestamp() - interval '2 seconds')
  ORDER BY floor((r.priority * 600 + date_part('epoch', now() - r.queued_at)) / 600) DESC,
           s.last_started_at NULLS FIRST, r.queued_at, r.id
  LIMIT 1 FOR NO KEY UPDATE OF r SKIP LOCKED),
marked AS (UPDATE runs SET looked_at = clock_timestamp() FROM chosen WHERE runs.id = chosen.id RETURNING runs.*)
SELECT r.id AS run_id, r.public_id, r.epoch, r.attempt, r.kind, r.scope, r.mutex, p.folder,
       coalesce(p.folder_given, p.folder) AS folder_given, now() AS now, {ASK_SQL}, r.cost_cap_micros AS last_cost_cap,
       r.allowed_models AS last_models, r.one_shot, r.replicas, r.continues IS NOT NULL AS granted,
       (SELECT w.public_id FROM one_shots o JOIN runs w ON w.id = o.run_id
         WHERE o.key = r.one_shot AND w.id <> r.id) AS spent_by, {HOLDS_BACK} AS breaker,
       set_config('synchronous_commit', 'off', true) AS unwaited
FROM marked r JOIN run_payloads p ON p.run_id = r.id
""").bindparams(bindparam("passed", type_=ARRAY(BigInteger)))  # noqa: S608 - fixed words

LOCK_RUN = text("""
SELECT r.id FROM runs r
WHERE r.id = :id AND r.epoch = :epoch AND r.state IN ('queued', 'deferred') FOR NO KEY UPDATE SKIP LOCKED
""")
ADD_SCOPES = text("""
INSERT INTO scopes (key, "limit") SELECT key, CASE WHEN key = :mutex THEN 1 END FROM unnest(:keys) AS asked (key)
ORDER BY key ON CONFLICT (key) DO NOTHING
""").bindparams(bindparam("keys", type_=ARRAY(Text)), bindparam("mutex", type_=Text))
# Every lock and, when nothing stops the run, its admission; migrations 0002, 0014, 0015 and 0017 hold the text.
TAKE = text("SELECT * FROM admission_take(:asked)")
BLOCKER = text(f"""
SELECT id FROM runs WHERE :key IN (mutex, scope, 'project:' || project) AND state IN ({OCCUPYING_SQL})
ORDER BY admitted_at LIMIT 1
""")  # noqa: S608 - fixed words
# What other runs only hold of each window, and who holds the most. Asked with the windows locked, of which none changes
# without its lock.
HELD = text(f"""
SELECT w.id AS window_id, coalesce(h.held, 0) AS held, h.most_by
FROM unnest(:scopes, :units, :periods) WITH ORDINALITY AS a (scope, unit, period, place)
LEFT JOIN spend_windows w ON w.scope = a.scope AND w.unit = a.unit AND w.period = a.period
  AND w.starts_on = date_trunc(a.period, now() AT TIME ZONE 'UTC')::date
LEFT JOIN LATERAL (
  SELECT sum(v.held)::bigint AS held, (array_agg(v.run_id ORDER BY v.held DESC, v.run_id))[1] AS most_by
  FROM reservations v WHERE v.window_id = w.id AND v.run_id <> :run AND {ONLY_HELD}) h ON true
ORDER BY a.place
""").bindparams(  # noqa: S608 - fixed words
    bindparam("scopes", type_=ARRAY(Text)),
    bindparam("units", type_=ARRAY(Text)),
    bindparam("periods", type_=ARRAY(Text)),
    bindparam("run", type_=BigInteger),
)
DEFER = text("""
UPDATE runs SET state = 'deferred', epoch = epoch + 1, cause = :cause, mutex = coalesce(:mutex, mutex),
       mutex_within = coalesce(:within, mutex_within), project = coalesce(:project, project), not_before = :until,
       blocked_by = :blocked_by, waits_window = :window, waits_room_at = :room_at,
       state_since = clock_timestamp(), looked_at = NULL, admission = coalesce(:facts, admission)
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')
""").bindparams(
    bindparam("until", type_=DateTime(timezone=True)),
    bindparam("blocked_by", type_=BigInteger),
    bindparam("window", type_=BigInteger),
    bindparam("room_at", type_=BigInteger),
    bindparam("mutex", type_=Text),
    bindparam("within", type_=ARRAY(Text)),
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
      WHERE s.key NOT LIKE 'inode:%' AND s.key NOT LIKE 'subject:%' AND s.key <> '*') AS asked
WHERE scopes.key = asked.key AND scopes."limit" IS DISTINCT FROM asked.bound
""").bindparams(bindparam("keys", type_=ARRAY(Text)), bindparam("bounds", type_=ARRAY(Integer)))
SET_CAPACITY = text("UPDATE hosts SET capacity = :capacity WHERE name = :host AND capacity <> :capacity")
