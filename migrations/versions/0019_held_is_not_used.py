"""A run waits for what others only hold of a cap, and a completed one says where it may have fallen short.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0019"
down_revision = "0018"
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
    sa.Column(
        "remarks",
        ARRAY(sa.Text()),
        comment="Where a completed run may have fallen short of what was asked, as words",
    ),
)
LAST, MORE = "r.session_reason", "r.session_reason,\n    r.remarks"
# What a granted run might spend was its own alone until now, and lost with each copy.
GRANTED = (
    "UPDATE runs SET cost_cap_asked = cost_cap_micros WHERE continues IS NOT NULL AND cost_cap_asked IS NULL"
)


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("runs", column)
    op.execute(GRANTED)
    _show_again(LAST, MORE)


def downgrade() -> None:
    _show_again(MORE, LAST)
    for column in COLUMNS:
        op.drop_column("runs", column.name)


def _show_again(old: str, new: str) -> None:
    """Make `run_history` anew with other last columns; the rest stays as it is by now."""
    asked = sa.text(
        "SELECT pg_get_viewdef('run_history'::regclass), obj_description('run_history'::regclass)"
    )
    text, said = op.get_bind().execute(asked).one()
    if text.count(old) != 1:
        raise RuntimeError(f"run_history has not, or not once: {old}")
    op.execute("DROP VIEW run_history")
    op.get_bind().exec_driver_sql(f"CREATE VIEW run_history AS {text.replace(old, new)}")
    op.get_bind().exec_driver_sql(f"COMMENT ON VIEW run_history IS '{said}'")
