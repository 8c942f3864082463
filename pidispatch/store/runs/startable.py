"""Say in SQL which runs hold a slot, and which may start on a host now: one text for the choice and for the bells."""

from pidispatch.domain import words
from pidispatch.store.tables import OCCUPYING_SQL

# What a run holds of a window and may yet give back: dollars until its end, its place among the runs until its go.
ONLY_HELD = """v.state = 'held' AND v.held > 0 AND (w.unit <> 'runs' OR NOT EXISTS (
  SELECT 1 FROM run_attempts t WHERE t.run_id = v.run_id AND t.go_at IS NOT NULL))"""
# A run deferred for its scope may start as soon as the scope has room; one deferred for a time, when that has come; one that
# waits for what others hold of a window, as soon as they gave enough of it back, or hold nothing more.
# Scopes are looked up run by run: joined, all scopes would be read for a handful of waiters. Which folders are taken is
# asked once: they are as many as the runs at work. A folder is taken with all that it lies in and all that lies in it.
STARTABLE = f"""
FROM runs r
JOIN LATERAL (SELECT last_started_at, paused_at, occupied, "limit" FROM scopes WHERE key = r.scope OFFSET 0) s ON true
WHERE (r.pinned_host IS NULL OR r.pinned_host = :host)
  AND r.state IN ('queued', 'deferred')
  AND (r.not_before IS NULL OR r.not_before <= now() OR (r.cause = '{words.CAP_HELD}' AND (
        EXISTS (SELECT 1 FROM spend_windows w WHERE w.id = r.waits_window AND w.used <= r.waits_room_at)
        OR NOT EXISTS (SELECT 1 FROM reservations v JOIN spend_windows w ON w.id = v.window_id
                       WHERE v.window_id = r.waits_window AND {ONLY_HELD}))))
  AND s.paused_at IS NULL AND (s."limit" IS NULL OR s.occupied < s."limit")
  AND (r.mutex IS NULL OR r.mutex NOT IN (
        SELECT unnest(o.mutex || o.mutex_within) FROM runs o
        WHERE o.state IN ({OCCUPYING_SQL}) AND o.mutex IS NOT NULL))
  AND NOT r.mutex_within && ARRAY(
        SELECT o.mutex FROM runs o WHERE o.state IN ({OCCUPYING_SQL}) AND o.mutex IS NOT NULL)
  AND CASE WHEN r.project IS NULL THEN true
           ELSE coalesce((SELECT j.paused_at IS NULL AND (j."limit" IS NULL OR j.occupied < j."limit")
                          FROM scopes j WHERE j.key = 'project:' || r.project), true) END
  AND NOT EXISTS (SELECT 1 FROM scopes g WHERE g.key = '*' AND g.paused_at IS NOT NULL)
"""  # noqa: S608 - fixed words
