"""Say in SQL which runs may start on a host now: one text for the choice and for the bells."""

# A run deferred for its scope may start as soon as the scope has room; one deferred for a time, when that has come.
STARTABLE = """
FROM runs r JOIN scopes s ON s.key = r.scope
LEFT JOIN scopes m ON m.key = r.mutex
LEFT JOIN scopes j ON j.key = 'project:' || r.project
WHERE (r.pinned_host IS NULL OR r.pinned_host = :host)
  AND r.state IN ('queued', 'deferred')
  AND (r.not_before IS NULL OR r.not_before <= now())
  AND (m.key IS NULL OR m.occupied = 0)
  AND (s."limit" IS NULL OR s.occupied < s."limit")
  AND (j."limit" IS NULL OR j.occupied < j."limit")
  AND s.paused_at IS NULL AND j.paused_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM scopes g WHERE g.key = '*' AND g.paused_at IS NOT NULL)
"""
