"""The statements on runs that are held for something named."""

from sqlalchemy import DateTime, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import bindparam
from sqlalchemy.types import BigInteger, Interval, Text

MARKED = "interval '15 minutes'"  # how long a run that was let go stands for the others of its key

ADD = text("""
INSERT INTO run_waits (run_id, conditions, key) VALUES (:run, :conditions, :key)
""").bindparams(bindparam("conditions", type_=JSONB), bindparam("key", type_=Text))
HELD = text("""
UPDATE runs SET state = 'held', cause = :cause, not_before = coalesce(:until, now()), state_since = clock_timestamp()
WHERE id = :run
""").bindparams(bindparam("until", type_=DateTime(timezone=True)))
# Whatever an operator holds back is not asked after either.
WAITERS = """
FROM run_waits w JOIN runs r ON r.id = w.run_id JOIN scopes s ON s.key = r.scope
WHERE w.next_check_at IS NOT NULL AND r.state = 'held' AND (r.pinned_host IS NULL OR r.pinned_host = :host)
  AND (w.lease_until IS NULL OR w.lease_until <= clock_timestamp())
  AND s.paused_at IS NULL AND NOT EXISTS (SELECT 1 FROM scopes g WHERE g.key = '*' AND g.paused_at IS NOT NULL)
"""
# Both rows are locked, so that both are looked at again when another claim was written meanwhile.
DUE = text(f"""
SELECT r.id, r.public_id, r.target, r.pinned_host, w.key, w.conditions, w.asking, w.held_since, w.asked_since, w.checks,
       w.faults, w.last_profile, w.last_answer, w.last_at
{WAITERS} AND w.asking = :asking AND w.next_check_at <= clock_timestamp()
ORDER BY w.next_check_at, w.run_id LIMIT 1 FOR NO KEY UPDATE OF r, w SKIP LOCKED
""")
NEXT = text(f"""
SELECT extract(epoch FROM min(w.next_check_at) - clock_timestamp())::float8 {WAITERS}
""")  # noqa: S608 - fixed words
CHECKING = text("""
SELECT count(*) FROM run_waits w JOIN runs r ON r.id = w.run_id
WHERE w.next_check_at IS NOT NULL AND w.asking AND w.lease_until > clock_timestamp() AND r.state = 'held'
""")
TURN = text("SELECT pg_advisory_xact_lock(hashtextextended('pidispatch wait ' || :what, 0))")
MARK = text(f"""
SELECT run_id FROM run_waits
WHERE key = :key AND run_id <> :run AND held_since IS NOT NULL AND let_go_at > clock_timestamp() - {MARKED}
ORDER BY let_go_at DESC LIMIT 1
""")  # noqa: S608
RELEASE_DEAD = text("""
UPDATE run_waits w SET holder = false FROM runs r WHERE r.id = w.run_id AND r.state <> 'held' AND w.key = :key AND w.holder
""")
HOLDER = text("SELECT run_id FROM run_waits WHERE key = :key AND holder AND run_id <> :run")
BECOME_HOLDER = text("UPDATE run_waits SET holder = true WHERE run_id = :run")
LEASE = text("""
WITH claimed AS (UPDATE runs SET epoch = epoch + 1 WHERE id = :run RETURNING epoch)
UPDATE run_waits SET lease_until = clock_timestamp() + :lease, lease_by = :worker FROM claimed WHERE run_id = :run
RETURNING claimed.epoch, clock_timestamp() AS now
""").bindparams(bindparam("lease", type_=Interval))
LOCK = text("""
SELECT id FROM runs WHERE id = :run AND epoch = :epoch AND state = 'held' FOR NO KEY UPDATE
""")
# Its waiting for a worker begins now: it shall not pass those who waited for one while it waited for something else.
QUEUE = text("""
UPDATE runs SET state = 'queued', epoch = epoch + 1, cause = NULL, not_before = NULL, queued_at = clock_timestamp(),
       state_since = clock_timestamp()
WHERE id = :run
""")
WAIT_ON = text("UPDATE runs SET epoch = epoch + 1, not_before = :until WHERE id = :run").bindparams(
    bindparam("until", type_=DateTime(timezone=True))
)
END = text("""
UPDATE runs SET state = 'ended', epoch = epoch + 1, outcome = 'policy', result = 'none', reason = :reason, why = NULL,
       cause = NULL, not_before = NULL, ended_at = clock_timestamp(), state_since = clock_timestamp()
WHERE id = :run
""")
PROGRESS = text("""
UPDATE run_waits SET held_since = :held_since, asked_since = :asked_since, checks = :checks, faults = :faults,
       last_profile = :last_profile, last_answer = :last_answer, last_at = :last_at, lease_until = NULL, lease_by = NULL,
       next_check_at = :until, asking = :asking, holder = holder AND CAST(:until AS timestamptz) IS NOT NULL,
       let_go_at = CASE WHEN :let_go THEN clock_timestamp() END, superseded_by = :for_run
WHERE run_id = :run
""").bindparams(
    *(
        bindparam(name, type_=DateTime(timezone=True))
        for name in ("held_since", "asked_since", "last_at", "until")
    ),
    *(bindparam(name, type_=Text) for name in ("last_profile", "last_answer")),
    bindparam("for_run", type_=BigInteger),
)
LET_GO = text("""
UPDATE run_waits SET next_check_at = NULL, holder = false, lease_until = NULL, lease_by = NULL WHERE run_id = :run
""")
