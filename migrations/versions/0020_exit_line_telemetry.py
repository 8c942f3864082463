"""An attempt keeps what its box said of itself in its exit line.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

COLUMN = sa.Column(
    "telemetry",
    JSONB(),
    sa.CheckConstraint("octet_length(telemetry::text) <= 65536", name="run_attempts_telemetry_is_bounded"),
    comment="What its box said of itself in its exit line, secrets masked; never used for money",
)


def upgrade() -> None:
    op.add_column("run_attempts", COLUMN)


def downgrade() -> None:
    op.drop_column("run_attempts", "telemetry")
