"""A worker says which engine and place stand behind its host's name, and who was refused under it is kept.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

COLUMNS = {
    "workers": (
        sa.Column("engine_id", sa.Text(), comment="The Docker engine that answers it"),
        sa.Column(
            "place",
            sa.Text(),
            comment="Its machine's boot and its run directory: another place is another machine",
        ),
    ),
    "hosts": (
        sa.Column(
            "refused_at",
            sa.DateTime(timezone=True),
            comment="When a worker of another machine was last refused under this name, until one is let in",
        ),
        sa.Column("refused", sa.Text(), comment="The engine and place of that worker, for people"),
    ),
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for column in columns:
            op.add_column(table, column)


def downgrade() -> None:
    for table, columns in COLUMNS.items():
        for column in columns:
            op.drop_column(table, column.name)
