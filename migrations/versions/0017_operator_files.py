"""The last good content of the operator's files, and the zone of each host's schedules.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

HOST_LOCKED = "  PERFORM 1 FROM hosts WHERE name = the_host FOR NO KEY UPDATE;\n"
# After the host's lock, which every admission of a host takes: so none follows another that knew a newer content.
FILES = """  IF EXISTS (SELECT 1 FROM jsonb_to_recordset(asked->'files') AS f (name text, place text, digest text)
             JOIN operator_files o ON o.host = the_host AND o.name = f.name AND o.place = f.place
             WHERE o.digest <> f.digest) THEN
    stop := 'files';
    UPDATE runs SET looked_at = NULL WHERE id = the_run;
    RETURN;
  END IF;
"""
FILES_AGREE = HOST_LOCKED + FILES


def upgrade() -> None:
    op.create_table(
        "operator_files",
        sa.Column("host", sa.Text(), nullable=False, comment="The host whose processes read it"),
        sa.Column("name", sa.Text(), nullable=False, comment="What it is: scoped_limits, triggers and so on"),
        sa.Column(
            "place",
            sa.Text(),
            nullable=False,
            comment="Its path; one a line where several are judged together",
        ),
        sa.Column(
            "contents",
            ARRAY(sa.LargeBinary()),
            nullable=True,
            comment="What the files held when they were last good, null for one that is not there; "
            "null in all when a known secret was in it",
        ),
        sa.Column("digest", sa.Text(), nullable=False, comment="sha256 of the contents"),
        sa.Column(
            "in_force_since",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When this content was first read",
        ),
        sa.Column(
            "problems",
            ARRAY(sa.Text()),
            nullable=False,
            server_default=sa.text("'{}'"),
            comment="What is wrong with the files now; then the content here is in force in their place",
        ),
        sa.Column(
            "bad_since", sa.DateTime(timezone=True), nullable=True, comment="When they were first seen bad"
        ),
        sa.CheckConstraint(
            "(bad_since IS NULL) = (cardinality(problems) = 0)", name="operator_files_bad_since"
        ),
        sa.CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name="operator_files_digest"),
        sa.PrimaryKeyConstraint("host", "name", "place"),
        comment="The last good content of each of the operator's files, by host",
    )
    op.create_table(
        "host_zones",
        sa.Column("host", sa.Text(), nullable=False, comment="The host"),
        sa.Column(
            "zone", sa.Text(), nullable=False, comment="The zone of its schedules that name none themselves"
        ),
        sa.Column(
            "settled_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was settled",
        ),
        sa.Column(
            "settled_by",
            sa.Text(),
            nullable=False,
            comment="The first worker that planned, or who changed it",
        ),
        sa.CheckConstraint("zone <> ''", name="host_zones_zone"),
        sa.PrimaryKeyConstraint("host"),
        comment="The zone of the schedules without tz, settled once for each host",
    )
    op.add_column(
        "schedules",
        sa.Column(
            "zone_of",
            sa.Text(),
            nullable=True,
            comment="The host whose zone it follows, also when another plans it; null: its entry names one",
        ),
    )
    _rewrite(HOST_LOCKED, FILES_AGREE)


def downgrade() -> None:
    _rewrite(FILES_AGREE, HOST_LOCKED)
    op.drop_column("schedules", "zone_of")
    op.drop_table("host_zones")
    op.drop_table("operator_files")


def _rewrite(old: str, new: str) -> None:
    """Replace a part of `admission_take` as it is by now: its text (migration 0002) is long, and the rest stays."""
    asked = sa.text("SELECT pg_get_functiondef('admission_take(jsonb)'::regprocedure)")
    text: str = op.get_bind().execute(asked).scalar_one()
    if text.count(old) != 1:
        raise RuntimeError(f"admission_take has not, or not once: {old}")
    op.get_bind().exec_driver_sql(text.replace(old, new))
