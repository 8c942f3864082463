"""Where each run went outside of its box, and where it was not let.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "egress_uses",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run"),
        sa.Column("host", sa.Text(), nullable=False, comment="Name or address as asked for; * is all others"),
        sa.Column("port", sa.Integer(), nullable=False, comment="Its port; 0 with *, or when there was none"),
        sa.Column("allowed", sa.Boolean(), nullable=False, comment="Whether it was connected"),
        sa.Column("reason", sa.Text(), nullable=False, comment="Which rule let it through, or did not"),
        _count("connections", "Connections made, or tries refused"),
        _count("bytes_up", "Bytes that the run sent"),
        _count("bytes_down", "Bytes that it was sent"),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False, comment="The first of them"),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False, comment="When something last moved"),
        sa.CheckConstraint("length(host) BETWEEN 1 AND 255", name="egress_uses_host_is_short"),
        sa.CheckConstraint("port BETWEEN 0 AND 65535", name="egress_uses_port"),
        sa.CheckConstraint("reason ~ '^[a-z][a-z0-9-]{0,63}$'", name="egress_uses_reason_is_a_word"),
        sa.CheckConstraint(
            "connections >= 0 AND bytes_up >= 0 AND bytes_down >= 0", name="egress_uses_counts_not_negative"
        ),
        sa.CheckConstraint("isfinite(first_at) AND isfinite(last_at)", name="egress_uses_times_are_finite"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "host", "port", "allowed", "reason"),
        comment="What a run did at one host outside of its box, or tried to; at most 101 of each kind in a run",
    )


def downgrade() -> None:
    op.drop_table("egress_uses")


def _count(name: str, comment: str) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment=comment)
