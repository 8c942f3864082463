"""Schedules: what a triggers file plans, and how far it is planned.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "schedules",
        sa.Column("id", sa.Text(), nullable=False, comment="The entry's id"),
        sa.Column(
            "host", sa.Text(), nullable=False, comment="The host that plans it: its file has the entry"
        ),
        sa.Column("served", sa.Boolean(), nullable=False, comment="Whether that host has its folder"),
        sa.Column(
            "place", sa.Integer(), nullable=False, comment="Its place in the file, from 0; display only"
        ),
        sa.Column("pattern", sa.Text(), nullable=False, comment="Five fields, or six with seconds first"),
        sa.Column("zone", sa.Text(), nullable=False, comment="The zone of its wall clock"),
        sa.Column(
            "missed", sa.Text(), nullable=False, comment="What becomes of missed instants: skip, once or all"
        ),
        sa.Column(
            "revision",
            sa.Text(),
            nullable=False,
            comment="Hash of the entries of its host's file: who holds other entries leaves it alone",
        ),
        sa.Column(
            "planned_until",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="Every instant up to here has its slot",
        ),
        sa.Column(
            "next_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="The next instant; null when none will come",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When its entry was first seen",
        ),
        sa.Column(
            "changed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When an edit of its entry last took effect",
        ),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True, comment="When its entry was gone"),
        sa.CheckConstraint("missed IN ('skip', 'once', 'all')", name="schedules_missed"),
        sa.CheckConstraint(
            "isfinite(next_at) AND isfinite(planned_until)", name="schedules_times_are_finite"
        ),
        sa.PrimaryKeyConstraint("id"),
        comment="A schedule of a triggers file, and how far it is planned; locked by whoever plans it",
    )
    op.create_index(
        "schedules_due", "schedules", ["host", "next_at"], postgresql_where=sa.text("removed_at IS NULL")
    )
    op.create_index(
        "schedule_slots_runs", "schedule_slots", ["run_id"], postgresql_where=sa.text("run_id IS NOT NULL")
    )
    op.create_check_constraint(
        "schedule_slots_reason_is_a_word", "schedule_slots", "reason ~ '^[a-z][a-z0-9-]{0,63}$'"
    )
    op.create_check_constraint(
        "schedule_slots_run", "schedule_slots", "(state IN ('ran', 'deferred')) = (run_id IS NOT NULL)"
    )


def downgrade() -> None:
    op.drop_constraint("schedule_slots_run", "schedule_slots")
    op.drop_constraint("schedule_slots_reason_is_a_word", "schedule_slots")
    op.drop_index("schedule_slots_runs", table_name="schedule_slots")
    op.drop_table("schedules")
