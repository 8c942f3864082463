"""The session of a run that stopped at a cap is kept for the run that goes on.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_sessions",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run that stopped"),
        sa.Column(
            "session", sa.LargeBinary(), nullable=False, comment="The transcript, with known secrets hidden"
        ),
        sa.Column(
            "pi_version",
            sa.Text(),
            nullable=True,
            comment="The pi that wrote it: another one may not read it",
        ),
        sa.Column(
            "kept_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the run ended",
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, comment="When it may be deleted"),
        sa.CheckConstraint("length(session) > 0", name="run_sessions_holds_something"),
        sa.CheckConstraint("isfinite(expires_at)", name="run_sessions_times_are_finite"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id"),
        comment="What pi wrote of a run that stopped at a cap, for the run that goes on; untrusted; "
        "deleted 7 days after the end",
    )
    op.create_index("run_sessions_expiry", "run_sessions", ["expires_at"])
    op.create_index(
        "runs_continues", "runs", ["continues"], postgresql_where=sa.text("continues IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_index("runs_continues", "runs")
    op.drop_table("run_sessions")
