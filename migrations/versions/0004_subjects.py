"""What runs are about, what of it arrived, and one-shots that are armed again.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "subjects",
        sa.Column("key", sa.Text(), nullable=False, comment="A hash of scope, item and lane"),
        sa.Column("scope", sa.Text(), nullable=False, comment="A folder's scope, or <forge>:<repository>"),
        sa.Column("item", sa.Text(), nullable=False, comment="#<number>, !<number>, or a hash of the task"),
        sa.Column(
            "lane",
            sa.Text(),
            nullable=False,
            comment="The flow or command, on a close and of a replica apart",
        ),
        sa.Column(
            "arrived_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When something for it arrived last",
        ),
        sa.PrimaryKeyConstraint("key"),
        comment="What runs are about: locked by each arrival for it, and by nothing else",
    )
    _upgrade_runs()
    _upgrade_deliveries()
    _upgrade_one_shots()


def _upgrade_runs() -> None:
    op.add_column(
        "runs",
        sa.Column(
            "subject",
            sa.Text(),
            sa.ForeignKey("subjects.key"),
            nullable=True,
            comment="What it is about; null for a run that is alone",
        ),
    )
    op.add_column(
        "runs",
        sa.Column("one_shot", sa.Text(), nullable=True, comment="Key of the one-shot trigger that it spends"),
    )
    op.create_index(
        "runs_subject",
        "runs",
        ["subject", sa.literal_column("id DESC")],
        postgresql_where=sa.text("subject IS NOT NULL"),
    )


def _upgrade_deliveries() -> None:
    op.add_column(
        "deliveries",
        sa.Column(
            "subject",
            sa.Text(),
            sa.ForeignKey("subjects.key"),
            nullable=True,
            comment="What it is about",
        ),
    )
    op.add_column(
        "deliveries",
        sa.Column(
            "occurrence",
            sa.Text(),
            nullable=True,
            comment="What happened, the same from every source that tells it",
        ),
    )
    op.add_column(
        "deliveries",
        sa.Column(
            "repeats",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="How often it was delivered again under the same id",
        ),
    )
    op.create_index(
        "deliveries_run", "deliveries", ["run_id"], postgresql_where=sa.text("run_id IS NOT NULL")
    )
    op.create_index(
        "deliveries_occurrence",
        "deliveries",
        ["subject", "occurrence"],
        postgresql_where=sa.text("occurrence IS NOT NULL"),
    )


def _upgrade_one_shots() -> None:
    op.add_column(
        "one_shots",
        sa.Column(
            "marked_in",
            sa.Text(),
            nullable=True,
            comment="Where: <host>:<hash of the file's path>; only there a mark that is gone means anything",
        ),
    )
    op.create_index("one_shots_run", "one_shots", ["run_id"])
    op.create_index(
        "one_shots_unmarked", "one_shots", ["spent_at"], postgresql_where=sa.text("marked_at IS NULL")
    )
    op.create_table(
        "rearmed_one_shots",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="Surrogate key"),
        sa.Column("key", sa.Text(), nullable=False, comment="The key it had in one_shots"),
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run that had spent it"),
        sa.Column("spent_at", sa.DateTime(timezone=True), nullable=False, comment="When it had been spent"),
        sa.Column(
            "marked_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When the file's mark had been written",
        ),
        sa.Column(
            "rearmed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was armed again",
        ),
        sa.Column("rearmed_by", sa.Text(), nullable=False, comment="Who did it: user@host, or the file"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("id"),
        comment="What one_shots held before the trigger was armed again",
    )
    op.create_index("rearmed_one_shots_key", "rearmed_one_shots", ["key"])


def downgrade() -> None:
    op.drop_table("rearmed_one_shots")
    op.drop_index("one_shots_unmarked", table_name="one_shots")
    op.drop_index("one_shots_run", table_name="one_shots")
    op.drop_column("one_shots", "marked_in")
    op.drop_index("deliveries_occurrence", table_name="deliveries")
    op.drop_index("deliveries_run", table_name="deliveries")
    for column in ("repeats", "occurrence", "subject"):
        op.drop_column("deliveries", column)
    op.drop_index("runs_subject", table_name="runs")
    for column in ("one_shot", "subject"):
        op.drop_column("runs", column)
    op.drop_table("subjects")
