"""A run waits for what others only hold of a cap, and knows of which window.

Revision ID: 0023
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0014"
branch_labels = None
depends_on = None

COLUMNS = (
    sa.Column(
        "waits_window",
        sa.BigInteger(),
        comment="With the cause cap-held: the window of which others hold what it needs",
    ),
    sa.Column(
        "waits_room_at",
        sa.BigInteger(),
        comment="It fits as soon as that window's use is no more than this",
    ),
)
# What a granted run might spend was its own alone until now, and lost with each copy.
GRANTED = (
    "UPDATE runs SET cost_cap_asked = cost_cap_micros WHERE continues IS NOT NULL AND cost_cap_asked IS NULL"
)


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("runs", column)
    op.execute(GRANTED)


def downgrade() -> None:
    for column in COLUMNS:
        op.drop_column("runs", column.name)
