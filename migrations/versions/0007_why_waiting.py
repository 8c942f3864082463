"""`why_waiting` says which trigger started a run.

Revision ID: 0007
Revises: 0006
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

VIEW = """
CREATE VIEW why_waiting AS
SELECT r.public_id, r.target, r.state, CASE WHEN g.paused_at IS NOT NULL OR s.paused_at IS NOT NULL THEN 'paused'
            ELSE coalesce(r.cause, 'waiting-for-a-worker') END AS cause, r.not_before AS until,
       b.public_id AS blocked_by, r.priority, r.scope, r.pinned_host AS host, r.queued_at,
       now() - r.queued_at AS waited,
       row_number() OVER (ORDER BY floor((r.priority * 600 + extract(epoch FROM now() - r.queued_at)) / 600) DESC,
                          s.last_started_at NULLS FIRST, r.queued_at, r.id) AS place{more}
FROM runs r JOIN scopes s ON s.key = r.scope JOIN scopes g ON g.key = '*'
     LEFT JOIN runs b ON b.id = r.blocked_by
WHERE r.state IN ('queued', 'deferred', 'held');
COMMENT ON VIEW why_waiting IS 'Every waiting run: why, until when, behind which run, and its place in line{said}';
"""


def upgrade() -> None:
    op.execute("DROP VIEW why_waiting")
    op.execute(VIEW.format(more=", r.trigger_type, r.trigger_id", said="; and what asked for it"))


def downgrade() -> None:
    op.execute("DROP VIEW why_waiting")
    op.execute(VIEW.format(more="", said=""))
