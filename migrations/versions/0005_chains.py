"""What a run's outbox is judged by, and how each of its requests was answered.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "run_attempts",
        sa.Column(
            "commit_before", sa.Text(), nullable=True, comment="The folder's commit before its agent started"
        ),
    )
    op.add_column(
        "runs",
        sa.Column(
            "chain_answers",
            postgresql.JSONB(),
            nullable=True,
            comment="What became of each request in its outbox: a run, or a word",
        ),
    )


def downgrade() -> None:
    op.drop_column("runs", "chain_answers")
    op.drop_column("run_attempts", "commit_before")
