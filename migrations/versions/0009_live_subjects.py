"""Find what is live for a subject or a schedule, however long its history, and let idle subjects go.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

WAS_RUN = "What it is about; null for a run that is alone"
RUN = "Key of what it is about, null for a run that is alone; the subject's row goes once it is idle"
WAS_DELIVERY = "What it is about"
DELIVERY = "Key of what it is about; the subject's row goes once it is idle"
WAS_SOURCE = "The forge, or poll"
SOURCE = "The forge, poll, cron, cli or api"


def upgrade() -> None:
    op.drop_constraint("runs_subject_fkey", "runs", type_="foreignkey")
    op.drop_constraint("deliveries_subject_fkey", "deliveries", type_="foreignkey")
    _comments(RUN, DELIVERY, SOURCE, was=(WAS_RUN, WAS_DELIVERY, WAS_SOURCE))
    op.drop_index("runs_subject", table_name="runs")
    op.create_index(
        "runs_subject",
        "runs",
        ["subject", sa.literal_column("created_at DESC")],
        postgresql_where=sa.text("subject IS NOT NULL"),
    )
    op.create_index(
        "runs_subject_live",
        "runs",
        ["subject"],
        postgresql_where=sa.text("subject IS NOT NULL AND ended_at IS NULL"),
    )
    op.create_index(
        "runs_trigger_live",
        "runs",
        ["trigger_id"],
        postgresql_where=sa.text("trigger_id IS NOT NULL AND ended_at IS NULL"),
    )
    op.create_index("subjects_arrived", "subjects", ["arrived_at"])


def downgrade() -> None:
    op.drop_index("subjects_arrived", table_name="subjects")
    op.drop_index("runs_trigger_live", table_name="runs")
    op.drop_index("runs_subject_live", table_name="runs")
    op.drop_index("runs_subject", table_name="runs")
    op.create_index(
        "runs_subject",
        "runs",
        ["subject", sa.literal_column("id DESC")],
        postgresql_where=sa.text("subject IS NOT NULL"),
    )
    for table in ("deliveries", "runs"):
        known = "EXISTS (SELECT 1 FROM subjects s WHERE s.key = subject)"
        op.execute(f"UPDATE {table} SET subject = NULL WHERE NOT {known}")  # noqa: S608 - fixed words
        op.create_foreign_key(f"{table}_subject_fkey", table, "subjects", ["subject"], ["key"])
    _comments(WAS_RUN, WAS_DELIVERY, WAS_SOURCE, was=(RUN, DELIVERY, SOURCE))


def _comments(run: str, delivery: str, source: str, *, was: tuple[str, str, str]) -> None:
    for table, column, comment, old in (
        ("runs", "subject", run, was[0]),
        ("deliveries", "subject", delivery, was[1]),
        ("deliveries", "source", source, was[2]),
    ):
        op.alter_column(table, column, comment=comment, existing_comment=old, existing_type=sa.Text())
