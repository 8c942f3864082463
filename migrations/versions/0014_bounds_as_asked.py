"""A run keeps what it was asked to stay within, and its admission writes which models are in force.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

COLUMNS = (
    sa.Column(
        "cost_cap_asked",
        sa.BigInteger(),
        comment="Micro-dollars it was to spend at most; a requeue asks for the same",
    ),
    sa.Column(
        "models_asked",
        ARRAY(sa.Text()),
        comment="provider/model that it was to call alone; a requeue asks for the same",
    ),
)
CAP = "cost_cap_micros = (claim->>'cost_cap')::bigint,"
MODELS = (
    f"{CAP}\n         allowed_models = CASE jsonb_typeof(claim->'allowed_models') WHEN 'array'\n"
    "           THEN ARRAY(SELECT jsonb_array_elements_text(claim->'allowed_models')) END,"
)


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("runs", column)
    _rewrite(CAP, MODELS)


def downgrade() -> None:
    _rewrite(MODELS, CAP)
    for column in COLUMNS:
        op.drop_column("runs", column.name)


def _rewrite(old: str, new: str) -> None:
    """Replace a part of `admission_take` as it is by now: its text (migration 0002) is long, and the rest stays."""
    asked = sa.text("SELECT pg_get_functiondef('admission_take(jsonb)'::regprocedure)")
    text: str = op.get_bind().execute(asked).scalar_one()
    if text.count(old) != 1:
        raise RuntimeError(f"admission_take has not, or not once: {old}")
    op.get_bind().exec_driver_sql(text.replace(old, new))
