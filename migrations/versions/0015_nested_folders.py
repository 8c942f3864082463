"""Runs wait for those in folders around theirs and inside of it, and keep whose folder was admitted.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

COLUMNS = (
    sa.Column(
        "mutex_within",
        ARRAY(sa.Text()),
        server_default=sa.text("'{}'"),
        nullable=False,
        comment="The same of the directories that the folder lies in: no run works in one of them meanwhile",
    ),
    sa.Column(
        "folder_owner",
        sa.BigInteger(),
        comment="The folder's user at admission; a folder that was given away is another one",
    ),
)
STOPS_BEFORE = "operator-cancel, deadline or shutdown"
STOPS = "operator-cancel, deadline, shutdown or workspace-gone"
# Admissions of one host take turns by its row, and the next statement sees all that were committed before.
HOST = "PERFORM 1 FROM hosts WHERE name = the_host FOR NO KEY UPDATE;"
NESTED = """PERFORM 1 FROM hosts WHERE name = the_host FOR NO KEY UPDATE;
  SELECT o.mutex INTO stopped_by FROM runs o
    WHERE o.state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing') AND o.mutex IS NOT NULL
      AND (asked->'within' ? o.mutex OR asked->>'mutex' = ANY(o.mutex_within)) ORDER BY o.admitted_at LIMIT 1;
  IF FOUND THEN
    stop := 'nested';
    RETURN;
  END IF;"""
MUTEX = "mutex = claim->>'mutex',"
WITHIN = f"""{MUTEX} folder_owner = (claim->>'owner')::bigint,
         mutex_within = ARRAY(SELECT jsonb_array_elements_text(coalesce(asked->'within', '[]'))),"""


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("runs", column)
    op.alter_column("runs", "stop_reason", comment=STOPS, existing_comment=STOPS_BEFORE)
    _rewrite(HOST, NESTED)
    _rewrite(MUTEX, WITHIN)


def downgrade() -> None:
    _rewrite(WITHIN, MUTEX)
    _rewrite(NESTED, HOST)
    op.alter_column("runs", "stop_reason", comment=STOPS_BEFORE, existing_comment=STOPS)
    for column in COLUMNS:
        op.drop_column("runs", column.name)


def _rewrite(old: str, new: str) -> None:
    """Replace a part of `admission_take` as it is by now: its text (migration 0002) is long, and the rest stays."""
    asked = sa.text("SELECT pg_get_functiondef('admission_take(jsonb)'::regprocedure)")
    text: str = op.get_bind().execute(asked).scalar_one()
    if text.count(old) != 1:
        raise RuntimeError(f"admission_take has not, or not once: {old}")
    op.get_bind().exec_driver_sql(text.replace(old, new))
