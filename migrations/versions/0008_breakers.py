"""Breakers: a trigger that fails again and again is held back.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# A rule of the table, not of each place that ends a run: an ending that is not counted would be found by nobody.
# What a person or another run asked for tells nothing of a trigger.
NOTE_ENDINGS = """
CREATE FUNCTION runs_note_ending() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO uncounted_endings (run_id, trigger_id) VALUES (NEW.id, NEW.trigger_id);
  RETURN NULL;
END $$;
CREATE TRIGGER runs_note_ending AFTER UPDATE OF state ON runs
  FOR EACH ROW WHEN (NEW.state = 'ended' AND OLD.state <> 'ended' AND NEW.trigger_id IS NOT NULL
                     AND NEW.trigger_type NOT IN ('cli', 'api', 'chain'))
  EXECUTE FUNCTION runs_note_ending();
"""
FORGET_ENDINGS = "DROP TRIGGER runs_note_ending ON runs; DROP FUNCTION runs_note_ending();"


def upgrade() -> None:
    op.create_table(
        "breakers",
        sa.Column("trigger_id", sa.Text(), nullable=False, comment="The trigger's own id, as in runs"),
        sa.Column("outcome", sa.Text(), nullable=False, comment="Outcome of the last failure"),
        sa.Column("reason", sa.Text(), nullable=False, comment="Its reason; with the outcome, the step"),
        sa.Column("failures", sa.Integer(), nullable=False, comment="Failures in a row at that step"),
        sa.Column(
            "opened_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Since when nothing but probes starts",
        ),
        sa.Column(
            "backoff_seconds",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="The wait that leads to the next probe; doubles when one fails",
        ),
        sa.Column(
            "probe_at", sa.DateTime(timezone=True), nullable=True, comment="When the next probe may start"
        ),
        sa.Column("probe", sa.Text(), nullable=True, comment="The run that tries now"),
        sa.Column(
            "changed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When an ending was last counted here",
        ),
        sa.CheckConstraint("failures > 0", name="breakers_failures_positive"),
        sa.CheckConstraint("outcome IN ('policy', 'failed')", name="breakers_outcome"),
        sa.CheckConstraint("reason ~ '^[a-z][a-z0-9-]{0,63}$'", name="breakers_reason_is_a_word"),
        sa.CheckConstraint("(opened_at IS NULL) = (probe_at IS NULL)", name="breakers_open_has_probe_time"),
        sa.CheckConstraint("probe IS NULL OR opened_at IS NOT NULL", name="breakers_probe_while_open"),
        sa.CheckConstraint("(opened_at IS NULL) = (backoff_seconds = 0)", name="breakers_open_has_backoff"),
        sa.CheckConstraint("isfinite(opened_at) AND isfinite(probe_at)", name="breakers_times_are_finite"),
        sa.ForeignKeyConstraint(["probe"], ["runs.public_id"], ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("trigger_id"),
        comment="A trigger whose last runs all ended at one step; without a row nothing is wrong. Locked "
        "before any scope by who starts a run of it",
    )
    op.create_table(
        "uncounted_endings",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run"),
        sa.Column("trigger_id", sa.Text(), nullable=False, comment="Its trigger"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id"),
        comment="Ended runs of triggers; written by the ending itself, deleted by who counts it",
    )
    op.create_index("uncounted_endings_trigger", "uncounted_endings", ["trigger_id"])
    op.execute(NOTE_ENDINGS)


def downgrade() -> None:
    op.execute(FORGET_ENDINGS)
    op.drop_table("uncounted_endings")
    op.drop_table("breakers")
