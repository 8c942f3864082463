"""A model call holds what it may use against what is left of its run's caps, in one statement.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

# Each statement inside has a snapshot of its own, so each sees what was true after the lock before it was had.
OPEN = """
CREATE FUNCTION call_open(
  asked jsonb, OUT call bigint, OUT may_micros bigint, OUT may_tokens bigint, OUT refused text
) LANGUAGE plpgsql AS $$
DECLARE
  the_run bigint := asked->'run';
  the_attempt smallint := asked->'attempt';
  the_model text := lower((asked->>'provider') || '/' || (asked->>'model'));
  micros bigint := asked->>'micros';
  tokens bigint := asked->>'tokens';
  least_micros bigint := coalesce(asked->>'least_micros', asked->>'micros');
  least_tokens bigint := asked->>'least_tokens';
  left_micros bigint;
  left_tokens bigint;
  lowered text;
  its record;
  spent record;
BEGIN
  -- One lock, the run's, and waited for in turn: two calls of a run cannot both take the last cent, no call slips in
  -- behind the last look at the run, and whoever stops or ends it is not kept waiting by calls that keep coming.
  SELECT r.host, r.scope, r.project, r.allowed_models, r.max_turns, r.max_tokens, r.cost_cap_micros INTO its
    FROM runs r WHERE r.id = the_run AND r.attempt = the_attempt AND r.state = 'running' AND r.stop_reason IS NULL
    FOR NO KEY UPDATE OF r;
  IF NOT FOUND OR NOT EXISTS (SELECT 1 FROM run_attempts a
                              WHERE a.run_id = the_run AND a.attempt = the_attempt AND a.go_at IS NOT NULL) THEN
    refused := 'closed';
    RETURN;
  END IF;
  -- In one snapshot, in which a call is either open or in the sums of its attempt.
  SELECT coalesce(sum(a.used_micros), 0)::bigint + o.micros AS micros,
         coalesce(sum(a.used_tokens), 0)::bigint + o.tokens AS tokens, coalesce(sum(a.used_turns), 0) + o.calls AS turns
    INTO spent
    FROM run_attempts a, (SELECT count(*) AS calls, coalesce(sum(c.held_micros), 0)::bigint AS micros,
                                 coalesce(sum(c.held_tokens), 0)::bigint AS tokens
                          FROM provider_calls c WHERE c.run_id = the_run AND c.state = 'held') o
    WHERE a.run_id = the_run GROUP BY o.calls, o.micros, o.tokens;

  IF EXISTS (SELECT 1 FROM scopes s
             WHERE s.key IN ('*', its.scope, 'project:' || its.project) AND s.stopped_at IS NOT NULL) THEN
    refused := 'stopped';
  ELSIF its.allowed_models IS NOT NULL AND asked->'others' = 'null' THEN
    refused := 'model-policy-unenforceable';
  ELSIF its.allowed_models IS NOT NULL AND EXISTS (
      SELECT 1 FROM (SELECT the_model UNION ALL SELECT lower((asked->>'provider') || '/' || other)
                     FROM jsonb_array_elements_text(asked->'others') AS others (other)) AS named (model)
      WHERE NOT EXISTS (SELECT 1 FROM unnest(its.allowed_models) AS allowed (model) WHERE lower(allowed.model) = named.model)) THEN
    refused := 'model-not-allowed';
  ELSIF spent.turns >= its.max_turns THEN
    refused := 'turn-cap';
  END IF;
  IF refused IS NULL AND its.max_tokens IS NOT NULL THEN
    left_tokens := greatest(its.max_tokens - spent.tokens, 0);
    IF tokens > left_tokens AND least_tokens <= left_tokens THEN
      tokens := left_tokens; lowered := 'token-cap';
    ELSIF tokens > left_tokens THEN
      refused := 'token-cap';
    END IF;
    may_tokens := tokens;
  END IF;
  IF refused IS NULL AND its.cost_cap_micros IS NOT NULL THEN
    left_micros := greatest(its.cost_cap_micros - spent.micros, 0);
    IF micros IS NULL THEN
      refused := 'cost-cap-unenforceable';
    ELSIF micros > left_micros AND least_micros <= left_micros THEN
      micros := left_micros; lowered := 'cost-cap';
    ELSIF micros > left_micros THEN
      refused := 'cost-cap';
    END IF;
    may_micros := micros;
  END IF;

  IF refused IS NOT NULL THEN
    -- An agent may ask again and again: nothing is waited for, and a crash loses no more than this word.
    SET LOCAL synchronous_commit = off;
    UPDATE run_attempts a SET refused_reason = refused, refused_at = clock_timestamp(), refusals = a.refusals + 1,
        refused_needed = CASE refused WHEN 'cost-cap' THEN least_micros WHEN 'token-cap' THEN least_tokens END,
        refused_left = CASE refused WHEN 'cost-cap' THEN left_micros WHEN 'token-cap' THEN left_tokens END
      WHERE a.run_id = the_run AND a.attempt = the_attempt;
    may_micros := NULL; may_tokens := NULL;
    RETURN;
  END IF;
  INSERT INTO provider_calls (run_id, attempt, host, provider, model, api, held_micros, held_tokens, lowered_by, opened_at)
    VALUES (the_run, the_attempt, its.host, asked->>'provider', asked->>'model', asked->>'api', micros, tokens, lowered,
            clock_timestamp())
    RETURNING id INTO call;
END $$;
COMMENT ON FUNCTION call_open IS
  'Hold what a model call may use against what is left of its run''s caps, as a row; or say why it is refused, and note '
  'that at the attempt, but for a run that is closed. may_micros and may_tokens are what it may use, null without a cap';
CREATE FUNCTION spend_adjustments_stay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'spend_adjustments only grows' USING ERRCODE = 'integrity_constraint_violation';
END $$;
COMMENT ON FUNCTION spend_adjustments_stay IS 'An adjustment that was written is not changed';
CREATE TRIGGER spend_adjustments_stay BEFORE UPDATE ON spend_adjustments
  FOR EACH STATEMENT EXECUTE FUNCTION spend_adjustments_stay();
"""

# What is under way during an upgrade counts from then on as it did before: nothing was held for it.
FILL = """
UPDATE provider_calls c SET held_micros = NULL FROM runs r WHERE r.id = c.run_id AND r.state <> 'ended';
UPDATE run_attempts a SET used_micros = s.micros, used_tokens = s.tokens, used_turns = s.turns
FROM (SELECT c.run_id, c.attempt, coalesce(sum(c.counted_micros), 0) AS micros, sum(c.counted_tokens) AS tokens,
             count(*) FILTER (WHERE c.stop_reason IN ('stop', 'tool_use', 'length')) AS turns
      FROM provider_calls c WHERE c.state <> 'held' GROUP BY c.run_id, c.attempt) s
WHERE a.run_id = s.run_id AND a.attempt = s.attempt;
UPDATE runs SET cost_micros = 0, cost_class = 'metered' WHERE state <> 'ended' AND calls = 0;
"""

HELD = "Micro-dollars reserved for this call"
LOWERED = "Its output was made shorter than asked, to fit what was left"
COUNTED_MICROS = (
    "CASE WHEN state = 'held' THEN held_micros "
    "WHEN state = 'settled' AND measured THEN coalesce(cost_micros, held_micros) "
    "ELSE least(cost_micros, held_micros) END"
)
COUNTED_TOKENS = (
    "CASE WHEN state = 'settled' THEN tokens_in + tokens_out + tokens_cache_read + tokens_cache_write "
    "ELSE held_tokens END"
)
SUMS = {
    "used_micros": "Micro-dollars that its settled and assumed calls count",
    "used_tokens": "Tokens that they count",
    "used_turns": "Those of them that ended stop, tool_use or length",
}
CALL_COLUMNS = (
    sa.Column(
        "lowered_by", sa.Text(), comment="The cap for whose rest its output was made shorter than asked"
    ),
    sa.Column(
        "counted_micros",
        sa.BigInteger(),
        sa.Computed(COUNTED_MICROS, persisted=True),
        comment="Micro-dollars it counts now; null when neither a price nor a hold says",
    ),
    sa.Column(
        "counted_tokens",
        sa.BigInteger(),
        sa.Computed(COUNTED_TOKENS, persisted=True),
        comment="Tokens it counts now against the run's cap",
    ),
)


def upgrade() -> None:
    op.drop_column("provider_calls", "lowered")
    _held_micros(nullable=True, default=None, comment=f"{HELD}; null without a price", was=HELD)
    for column in CALL_COLUMNS:
        op.add_column("provider_calls", column)
    op.create_check_constraint(
        "provider_calls_lowered_by", "provider_calls", "lowered_by IN ('cost-cap', 'token-cap')"
    )
    _index(["run_id"])
    for name, comment in SUMS.items():
        column = sa.Column(
            name, sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment=comment
        )
        op.add_column("run_attempts", column)
    op.create_check_constraint(
        "run_attempts_refused_is_a_word", "run_attempts", "refused_reason ~ '^[a-z][a-z0-9-]{0,63}$'"
    )
    # Changed by each call: it gets room in its page, so that no index is touched.
    op.execute("ALTER TABLE run_attempts SET (fillfactor = 60)")
    op.alter_column("runs", "cost_micros", server_default=sa.text("0"))
    op.alter_column("runs", "cost_class", server_default=sa.text("'metered'"))
    _adjustments()
    op.execute(OPEN)
    op.execute(FILL)


def downgrade() -> None:
    op.execute("DROP FUNCTION call_open")
    op.drop_table("spend_adjustments")
    op.execute("DROP FUNCTION spend_adjustments_stay")
    op.alter_column("runs", "cost_class", server_default=None)
    op.alter_column("runs", "cost_micros", server_default=None)
    op.execute("ALTER TABLE run_attempts RESET (fillfactor)")
    op.drop_constraint("run_attempts_refused_is_a_word", "run_attempts", type_="check")
    for name in SUMS:
        op.drop_column("run_attempts", name)
    _index(["host", "opened_at"])
    for column in reversed(CALL_COLUMNS):
        op.drop_column("provider_calls", column.name)
    op.execute("UPDATE provider_calls SET held_micros = 0 WHERE held_micros IS NULL")
    _held_micros(nullable=False, default=sa.text("0"), comment=HELD, was=f"{HELD}; null without a price")
    op.add_column(
        "provider_calls",
        sa.Column("lowered", sa.Boolean(), server_default=sa.text("false"), nullable=False, comment=LOWERED),
    )


def _held_micros(*, nullable: bool, default: sa.TextClause | None, comment: str, was: str) -> None:
    op.alter_column(
        "provider_calls",
        "held_micros",
        nullable=nullable,
        server_default=default,
        comment=comment,
        existing_comment=was,
        existing_type=sa.BigInteger(),
    )


def _index(columns: list[str]) -> None:
    """Few calls are open at a time, so one small index serves whoever asks for a run's and for a host's."""
    op.drop_index("provider_calls_open", table_name="provider_calls")
    op.create_index(
        "provider_calls_open", "provider_calls", columns, postgresql_where=sa.text("state = 'held'")
    )


def _adjustments() -> None:
    key = sa.Identity(always=True)
    op.create_table(
        "spend_adjustments",
        sa.Column("id", sa.BigInteger(), key, nullable=False, comment="Surrogate key"),
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run that called"),
        sa.Column("call_id", sa.BigInteger(), nullable=False, comment="The call that was assumed"),
        sa.Column("tokens_before", sa.BigInteger(), nullable=False, comment="Tokens on record until then"),
        sa.Column("tokens_after", sa.BigInteger(), nullable=False, comment="Tokens as measured"),
        sa.Column("micros_before", sa.BigInteger(), comment="Micro-dollars on record until then"),
        sa.Column("micros_after", sa.BigInteger(), comment="Micro-dollars as measured; null without a price"),
        sa.Column(
            "in_windows",
            sa.Boolean(),
            nullable=False,
            comment="The run had settled its windows, so these were changed too",
        ),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the figure came",
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["call_id"], ["provider_calls.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("call_id", name="spend_adjustments_once"),
        comment="A figure that came after its call was assumed; rows are only ever added",
    )
    op.create_index("spend_adjustments_run", "spend_adjustments", ["run_id"])
