"""Runs that wait for something named.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_waits",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run"),
        sa.Column(
            "conditions",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="What must be true, in order: after an instant, or a profile's program says go",
        ),
        sa.Column("key", sa.Text(), nullable=True, comment="Of the runs with one key only one is let go"),
        sa.Column(
            "holder",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether it is the one of its key that is asked after",
        ),
        sa.Column(
            "asking",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether the next look asks programs",
        ),
        sa.Column(
            "next_check_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
            comment="When it is looked at again; null once it waits no more",
        ),
        sa.Column("held_since", sa.DateTime(timezone=True), nullable=True, comment="When it was first held"),
        sa.Column(
            "asked_since",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="The first answer that was not go: from here the longest wait is counted",
        ),
        sa.Column("checks", sa.Integer(), server_default=sa.text("0"), nullable=False, comment="Checks made"),
        sa.Column(
            "faults",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Checks in a row without an answer",
        ),
        sa.Column(
            "last_profile", sa.Text(), nullable=True, comment="The profile whose program answered last"
        ),
        sa.Column("last_answer", sa.Text(), nullable=True, comment="go, not-yet, never, or fault for none"),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=True, comment="When it did"),
        sa.Column(
            "lease_until",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Until then nobody else looks at it; later the one who did is taken for dead",
        ),
        sa.Column("lease_by", sa.Text(), nullable=True, comment="The worker that looks at it"),
        sa.Column(
            "let_go_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was queued; for a while others of its key are then refused",
        ),
        sa.Column(
            "superseded_by", sa.BigInteger(), nullable=True, comment="The run of its key that does its work"
        ),
        sa.CheckConstraint("jsonb_typeof(conditions) = 'array'", name="run_waits_conditions_listed"),
        sa.CheckConstraint("length(key) BETWEEN 1 AND 500", name="run_waits_key_length"),
        sa.CheckConstraint("checks >= 0 AND faults BETWEEN 0 AND checks", name="run_waits_counts"),
        sa.CheckConstraint(
            "last_answer IN ('go', 'not-yet', 'never', 'fault')", name="run_waits_last_answer"
        ),
        sa.CheckConstraint("(lease_until IS NULL) = (lease_by IS NULL)", name="run_waits_lease"),
        sa.CheckConstraint(
            "isfinite(next_check_at) AND isfinite(lease_until)", name="run_waits_times_are_finite"
        ),
        sa.CheckConstraint(
            "NOT holder OR (key IS NOT NULL AND next_check_at IS NOT NULL)", name="holder_waits"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["superseded_by"], ["runs.id"], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("run_id"),
        comment="What a run waits for before it may start; it holds no slot and no money meanwhile",
    )
    op.create_index(
        "run_waits_due",
        "run_waits",
        ["next_check_at"],
        postgresql_where=sa.text("next_check_at IS NOT NULL"),
    )
    op.create_index(
        "run_waits_one_holder", "run_waits", ["key"], unique=True, postgresql_where=sa.text("holder")
    )
    op.create_index(
        "run_waits_let_go",
        "run_waits",
        ["key", "let_go_at"],
        postgresql_where=sa.text("let_go_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_table("run_waits")
