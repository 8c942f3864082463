"""A call whose usage nobody told counts the most that it may have used, and is a turn.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

SUM = "THEN tokens_in + tokens_out + tokens_cache_read + tokens_cache_write ELSE held_tokens END"
TOKENS = f"CASE WHEN state <> 'held' AND status IS NOT NULL {SUM}"
TOKENS_BEFORE = f"CASE WHEN state = 'settled' {SUM}"
ENDED_WELL = "coalesce(c.stop_reason IN ('stop', 'tool_use', 'length'), false)"
TURN = f"(c.state <> 'held' AND (c.state = 'assumed' OR {ENDED_WELL} OR c.counted_tokens > 0))"
TURN_BEFORE = f"(c.state <> 'held' AND {ENDED_WELL})"

CLASSES, CLASSES_BEFORE = (
    "metered, assumed, estimate, floor, plan or unrated",
    "metered, floor, plan, estimate or unrated",
)
# (table, column, comment, comment before)
COMMENTS = (
    ("runs", "turns", "Calls that were answered or may have been, by the gateway",
     "Calls that ended stop, tool_use or length, by the gateway"),
    ("runs", "cost_class", CLASSES, CLASSES_BEFORE),
    ("run_usage", "cost_class", CLASSES, CLASSES_BEFORE),
    ("provider_calls", "cost_class", CLASSES, CLASSES_BEFORE),
    ("provider_calls", "measured", "False: its provider did not say what it used, so this is the most it may have",
     "False: the provider reported nothing, this is an estimate"),
    ("run_attempts", "used_turns", "Those of them that were answered or may have been",
     "Those of them that ended stop, tool_use or length"),
)  # fmt: skip


def upgrade() -> None:
    _count(TOKENS, TURN)
    for table, column, comment, _ in COMMENTS:
        _comment(table, column, comment)


def downgrade() -> None:
    # The word is not known before; such a figure was then told as one that may be higher.
    op.execute("ALTER TABLE runs DISABLE TRIGGER USER")  # a record that has ended else stays as it is
    for table in ("runs", "run_usage", "provider_calls"):
        op.execute(f"UPDATE {table} SET cost_class = 'floor' WHERE cost_class = 'assumed'")  # noqa: S608
    op.execute("ALTER TABLE runs ENABLE TRIGGER USER")
    op.execute("UPDATE provider_calls SET state = 'settled' WHERE state = 'assumed' AND status IS NOT NULL")
    _count(TOKENS_BEFORE, TURN_BEFORE)
    for table, column, _, comment in COMMENTS:
        _comment(table, column, comment)


def _count(tokens: str, turn: str) -> None:
    """A generated column cannot be changed, so it is made anew; the sums of attempts follow their calls."""
    op.drop_column("provider_calls", "counted_tokens")
    op.add_column(
        "provider_calls",
        sa.Column(
            "counted_tokens",
            sa.BigInteger(),
            sa.Computed(tokens, persisted=True),
            comment="Tokens it counts now against the run's cap",
        ),
    )
    op.execute(f"""
UPDATE run_attempts a SET used_turns = s.turns, used_tokens = s.tokens
FROM (SELECT c.run_id, c.attempt, count(*) FILTER (WHERE {turn}) AS turns, sum(c.counted_tokens) AS tokens
      FROM provider_calls c WHERE c.state <> 'held' GROUP BY c.run_id, c.attempt) s
WHERE a.run_id = s.run_id AND a.attempt = s.attempt AND (a.used_turns, a.used_tokens) <> (s.turns, s.tokens)
""")  # noqa: S608 - fixed words


def _comment(table: str, column: str, comment: str) -> None:
    op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{comment.replace(chr(39), chr(39) * 2)}'")
