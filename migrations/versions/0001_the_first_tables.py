"""The first tables.

Revision ID: 0001
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

RULES = """
CREATE FUNCTION runs_terminal_is_final() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF (NEW.state, NEW.outcome, NEW.reason, NEW.why, NEW.exit_code, NEW.ended_at, NEW.attempt)
     IS DISTINCT FROM (OLD.state, OLD.outcome, OLD.reason, OLD.why, OLD.exit_code, OLD.ended_at, OLD.attempt)
  THEN RAISE EXCEPTION 'run % has ended as %', OLD.public_id, OLD.outcome
       USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER runs_terminal_is_final BEFORE UPDATE ON runs
  FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION runs_terminal_is_final();

CREATE FUNCTION audit_log_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'audit_log only grows' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER audit_log_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION audit_log_only_grows();

INSERT INTO scopes (key) VALUES ('*');

CREATE VIEW run_history AS
SELECT r.public_id, r.kind, r.target, r.flow, r.trigger_type, r.trigger_id, r.outcome, r.result, r.reason, r.why,
       r.attempt, r.exit_code, r.turns, r.calls, r.tokens_in, r.tokens_out, r.tokens_cache_read,
       r.tokens_cache_write, r.tokens_total, r.cost_micros, round(r.cost_micros / 1e6, 6) AS cost_usd, r.cost_class,
       r.provider, r.model, r.project, r.host, r.backend, r.created_at, r.queued_at, r.admitted_at, r.started_at,
       r.ended_at, extract(epoch FROM r.ended_at - r.started_at)::numeric(12, 3) AS seconds,
       EXISTS (SELECT 1 FROM reservations v JOIN spend_windows w ON w.id = v.window_id
               WHERE v.run_id = r.id AND w.scope = '*' AND w.unit = 'runs' AND v.state <> 'released')
         AS budget_reserved,
       p.public_id AS parent, r.chain_depth, r.chain_refused, r.replica, r.replicas,
       r.session_resumed, r.session_reason
FROM runs r LEFT JOIN runs p ON p.id = r.parent_id
WHERE r.state = 'ended';
COMMENT ON VIEW run_history IS 'Every ended run: what it did and what it used';

CREATE VIEW why_waiting AS
SELECT r.public_id, r.target, r.state, CASE WHEN g.paused_at IS NOT NULL OR s.paused_at IS NOT NULL THEN 'paused'
            ELSE coalesce(r.cause, 'waiting-for-a-worker') END AS cause, r.not_before AS until,
       b.public_id AS blocked_by, r.priority, r.scope, r.pinned_host AS host, r.queued_at,
       now() - r.queued_at AS waited,
       row_number() OVER (ORDER BY floor((r.priority * 600 + extract(epoch FROM now() - r.queued_at)) / 600) DESC,
                          s.last_started_at NULLS FIRST, r.queued_at, r.id) AS place
FROM runs r JOIN scopes s ON s.key = r.scope JOIN scopes g ON g.key = '*'
     LEFT JOIN runs b ON b.id = r.blocked_by
WHERE r.state IN ('queued', 'deferred', 'held');
COMMENT ON VIEW why_waiting IS 'Every waiting run: why, until when, behind which run, and its place in line';

CREATE VIEW spend_today AS
SELECT w.scope, w.unit, w.period, w.starts_on, w.used,
       coalesce(sum(v.counted) FILTER (WHERE v.state = 'held'), 0)::bigint AS held,
       coalesce(sum(v.counted) FILTER (WHERE v.state = 'settled'), 0)::bigint AS settled,
       count(*) FILTER (WHERE v.state <> 'released') AS runs
FROM spend_windows w LEFT JOIN reservations v ON v.window_id = w.id
WHERE (w.period, w.starts_on) IN (
  ('day', (now() AT TIME ZONE 'UTC')::date),
  ('week', date_trunc('week', now() AT TIME ZONE 'UTC')::date),
  ('month', date_trunc('month', now() AT TIME ZONE 'UTC')::date))
GROUP BY w.id;
COMMENT ON VIEW spend_today IS 'What is used of each window that today falls in, and how much of it is only held';
"""

UNDO = """
DROP VIEW spend_today, why_waiting, run_history;
DROP TRIGGER runs_terminal_is_final ON runs;
DROP TRIGGER audit_log_only_grows ON audit_log;
DROP FUNCTION runs_terminal_is_final();
DROP FUNCTION audit_log_only_grows();
"""


def upgrade() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="Surrogate key"),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was done",
        ),
        sa.Column("actor", sa.Text(), nullable=False, comment="Who did it: user@host"),
        sa.Column("action", sa.Text(), nullable=False, comment="What was done: pause, resume, set, …"),
        sa.Column("subject", sa.Text(), nullable=True, comment="To what: a scope, a run, a key"),
        sa.Column(
            "detail",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="What a reader needs to understand it, as JSON",
        ),
        sa.PrimaryKeyConstraint("id"),
        comment="What operators did; rows are only ever added",
    )
    op.create_table(
        "hosts",
        sa.Column("name", sa.Text(), nullable=False, comment="PI_WORKER_NAME, else the host's name"),
        sa.Column(
            "installation",
            sa.Text(),
            server_default=sa.text("substr(md5(random()::text || clock_timestamp()::text), 1, 8)"),
            nullable=False,
            comment="8 hex digits in the labels of its containers: another installation's are never touched",
        ),
        sa.Column("capacity", sa.Integer(), nullable=False, comment="Runs at a time on this host"),
        sa.Column("engine_id", sa.Text(), nullable=True, comment="The Docker engine's own id"),
        sa.Column(
            "heartbeat_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Last sign of life of any of its workers",
        ),
        sa.Column(
            "reconciled_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When rows and containers were last compared",
        ),
        sa.CheckConstraint("capacity >= 1", name="hosts_capacity_positive"),
        sa.PrimaryKeyConstraint("name"),
        comment="A machine that runs boxes; locked while one of its slots is taken",
    )
    op.create_table(
        "scopes",
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="*, folder:<hash>, inode:<host>:<dev>:<ino>, or a forge's repository",
        ),
        sa.Column(
            "occupied",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Runs of this scope in an occupying state",
        ),
        sa.Column("limit", sa.Integer(), nullable=True, comment="Runs at a time; null is no limit"),
        sa.Column(
            "last_started_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Scopes take turns: the longest ago first",
        ),
        sa.Column(
            "paused_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Set while an operator holds this scope back",
        ),
        sa.Column("paused_by", sa.Text(), nullable=True, comment="Who paused it: user@host"),
        sa.CheckConstraint('"limit" IS NULL OR "limit" >= 1', name="scopes_limit_positive"),
        sa.CheckConstraint("occupied >= 0", name="scopes_occupied_not_negative"),
        sa.PrimaryKeyConstraint("key"),
        comment="A scope: locked by every admission and every ending of its runs",
    )
    op.create_table(
        "spend_windows",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="Surrogate key"),
        sa.Column(
            "scope",
            sa.Text(),
            nullable=False,
            comment="A key of scopes, project:<id>, model:<provider>/<model>, or * for everything",
        ),
        sa.Column("unit", sa.Text(), nullable=False, comment="runs, tokens or micros (micro-dollars)"),
        sa.Column("period", sa.Text(), nullable=False, comment="day (UTC), week (from Monday) or month"),
        sa.Column("starts_on", sa.Date(), nullable=False, comment="First day of the window, UTC"),
        sa.Column(
            "used",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="What is counted in it now",
        ),
        sa.CheckConstraint(
            "period = 'day' OR (period = 'week' AND extract(isodow FROM starts_on) = 1) OR (period = 'month' AND extract(day FROM starts_on) = 1)",
            name="spend_windows_period",
        ),
        sa.CheckConstraint("unit IN ('runs', 'tokens', 'micros')", name="spend_windows_unit"),
        sa.CheckConstraint("used >= 0", name="spend_windows_used_not_negative"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("scope", "unit", "period", "starts_on", name="spend_windows_identity"),
        comment="One window of spend; used is always the sum of its reservations",
    )
    op.create_table(
        "runs",
        sa.Column(
            "id",
            sa.BigInteger(),
            sa.Identity(always=True),
            nullable=False,
            comment="Surrogate key; names the container",
        ),
        sa.Column(
            "public_id", sa.Text(), nullable=False, comment="The id people see; a repeat of it is a duplicate"
        ),
        sa.Column(
            "kind",
            sa.Text(),
            server_default=sa.text("'local'"),
            nullable=False,
            comment="local or a forge's kind",
        ),
        sa.Column(
            "target",
            sa.Text(),
            nullable=False,
            comment="local:<basename of the folder>, or repository and number",
        ),
        sa.Column("scope", sa.Text(), nullable=False, comment="What limits and pauses apply to"),
        sa.Column(
            "mutex",
            sa.Text(),
            nullable=True,
            comment="The folder by device and inode, set at admission: one run at a time",
        ),
        sa.Column("pinned_host", sa.Text(), nullable=True, comment="The only host that may run it (folders)"),
        sa.Column(
            "trigger_type",
            sa.Text(),
            nullable=False,
            comment="cli, api, cron, label, comment, pull_request, issue, chain",
        ),
        sa.Column("trigger_id", sa.Text(), nullable=True, comment="The trigger's own id"),
        sa.Column(
            "trigger_index",
            sa.Integer(),
            nullable=True,
            comment="The trigger's place in its file; display only",
        ),
        sa.Column("flow", sa.Text(), nullable=True, comment="The skill the agent is told to use"),
        sa.Column(
            "command",
            sa.Text(),
            nullable=True,
            comment="The command line of a command run, without its slash",
        ),
        sa.Column(
            "project", sa.Text(), nullable=True, comment="Id of the project it counted for, set at admission"
        ),
        sa.Column(
            "priority",
            sa.SmallInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="A step is worth ten minutes of waiting",
        ),
        sa.Column("provider", sa.Text(), nullable=True, comment="As asked; from admission on, as used"),
        sa.Column("model", sa.Text(), nullable=True, comment="As asked; from admission on, as used"),
        sa.Column("image", sa.Text(), nullable=True, comment="As asked; from admission on, as used"),
        sa.Column(
            "backend", sa.Text(), server_default=sa.text("'local'"), nullable=False, comment="Where boxes run"
        ),
        sa.Column(
            "max_turns",
            sa.Integer(),
            nullable=True,
            comment="Turns it may take; from admission on, as in force",
        ),
        sa.Column(
            "max_tokens", sa.BigInteger(), nullable=True, comment="Tokens it may use; null is no limit"
        ),
        sa.Column(
            "cost_cap_micros", sa.BigInteger(), nullable=True, comment="Micro-dollars this run may spend"
        ),
        sa.Column(
            "state",
            sa.Text(),
            server_default=sa.text("'queued'"),
            nullable=False,
            comment="queued, deferred, held, admitted, preparing, running, stopping, finishing or ended",
        ),
        sa.Column(
            "outcome", sa.Text(), nullable=True, comment="completed, policy or failed; only when ended"
        ),
        sa.Column("result", sa.Text(), nullable=True, comment="What was achieved"),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why it ended so: a word of a closed list"),
        sa.Column("why", sa.Text(), nullable=True, comment="A second word: the detail of the reason"),
        sa.Column("cause", sa.Text(), nullable=True, comment="Why it waits"),
        sa.Column(
            "not_before", sa.DateTime(timezone=True), nullable=True, comment="Waits at least until then"
        ),
        sa.Column("blocked_by", sa.BigInteger(), nullable=True, comment="The run it waits for"),
        sa.Column(
            "attempt",
            sa.SmallInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Names the container",
        ),
        sa.Column(
            "epoch",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Fencing token: +1 at every transition",
        ),
        sa.Column("host", sa.Text(), nullable=True, comment="Where it runs or ran"),
        sa.Column("worker", sa.Text(), nullable=True, comment="The process that prepares it"),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was asked for",
        ),
        sa.Column(
            "queued_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When its waiting began",
        ),
        sa.Column(
            "state_since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it entered its state",
        ),
        sa.Column(
            "admitted_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When its last attempt was admitted",
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True, comment="When its box got its go"),
        sa.Column(
            "ended_at", sa.DateTime(timezone=True), nullable=True, comment="When its record became final"
        ),
        sa.Column(
            "deadline_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When its box is stopped; counted from its go",
        ),
        sa.Column(
            "stop_requested_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When somebody asked it to stop",
        ),
        sa.Column("stop_reason", sa.Text(), nullable=True, comment="operator-cancel, deadline or shutdown"),
        sa.Column("exit_code", sa.Integer(), nullable=True, comment="The engine's, of the last attempt"),
        sa.Column(
            "turns",
            sa.Integer(),
            nullable=True,
            comment="Calls that ended stop, tool_use or length, by the gateway",
        ),
        sa.Column(
            "calls",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Model calls of all attempts",
        ),
        sa.Column(
            "tokens_in",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens in, without cached ones",
        ),
        sa.Column(
            "tokens_out", sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment="Tokens out"
        ),
        sa.Column(
            "tokens_cache_read",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens read from the provider's cache",
        ),
        sa.Column(
            "tokens_cache_write",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens written to the provider's cache",
        ),
        sa.Column(
            "tokens_total",
            sa.BigInteger(),
            sa.Computed("tokens_in + tokens_out + tokens_cache_read + tokens_cache_write", persisted=True),
            nullable=False,
            comment="Billed tokens, cache included",
        ),
        sa.Column("cost_micros", sa.BigInteger(), nullable=True, comment="Micro-dollars"),
        sa.Column(
            "cost_class", sa.Text(), nullable=True, comment="metered, floor, plan, estimate or unrated"
        ),
        sa.Column(
            "session_resumed",
            sa.Boolean(),
            nullable=True,
            comment="Whether it went on with an earlier session",
        ),
        sa.Column("session_reason", sa.Text(), nullable=True, comment="Why it did or did not"),
        sa.Column("session_bytes", sa.BigInteger(), nullable=True, comment="Size of the kept session"),
        sa.Column(
            "parent_id", sa.BigInteger(), nullable=True, comment="The run that asked for it from its outbox"
        ),
        sa.Column("root_id", sa.BigInteger(), nullable=True, comment="The first run of its chain"),
        sa.Column("requeue_of", sa.BigInteger(), nullable=True, comment="The run it repeats"),
        sa.Column("continues", sa.BigInteger(), nullable=True, comment="The run whose work it goes on with"),
        sa.Column(
            "chain_depth",
            sa.SmallInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="0, or one more than its parent's",
        ),
        sa.Column(
            "chain_refused",
            sa.SmallInteger(),
            nullable=True,
            comment="Requests in its outbox that were refused",
        ),
        sa.Column("replica", sa.SmallInteger(), nullable=True, comment="Which of its replicas it is, from 1"),
        sa.Column("replicas", sa.SmallInteger(), nullable=True, comment="How many there are"),
        sa.Column(
            "admission",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="The facts the last decision saw",
        ),
        sa.Column(
            "reported",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="What the runner said; telemetry, never money",
        ),
        sa.CheckConstraint(
            "(state = 'ended') = (ended_at IS NOT NULL) AND (ended_at IS NULL) = (outcome IS NULL)",
            name="ended_has_outcome",
        ),
        sa.CheckConstraint("cause ~ '^[a-z][a-z0-9-]{0,63}$'", name="runs_cause_is_a_word"),
        sa.CheckConstraint("kind <> 'local' OR pinned_host IS NOT NULL", name="local_run_has_a_host"),
        sa.CheckConstraint("kind IN ('local', 'github', 'gitlab', 'forgejo', 'azure')", name="runs_kind"),
        sa.CheckConstraint("outcome IN ('completed', 'policy', 'failed')", name="runs_outcome"),
        sa.CheckConstraint("reason ~ '^[a-z][a-z0-9-]{0,63}$'", name="runs_reason_is_a_word"),
        sa.CheckConstraint(
            "result IN ('none', 'no-op', 'done-unverified', 'done-verified')", name="runs_result"
        ),
        sa.CheckConstraint(
            "state IN ('queued', 'deferred', 'held', 'admitted', 'preparing', 'running', 'stopping', 'finishing', 'ended')",
            name="runs_state",
        ),
        sa.CheckConstraint(
            "state NOT IN ('admitted', 'preparing', 'running', 'stopping', 'finishing') OR (host IS NOT NULL AND attempt > 0)",
            name="occupying_has_owner",
        ),
        sa.CheckConstraint(
            "state NOT IN ('deferred', 'held') OR cause IS NOT NULL", name="waiting_has_cause"
        ),
        sa.CheckConstraint("why ~ '^[a-z][a-z0-9-]{0,63}$'", name="runs_why_is_a_word"),
        sa.CheckConstraint("attempt BETWEEN 0 AND 99", name="runs_attempt"),
        sa.CheckConstraint("cost_cap_micros >= 0 AND cost_micros >= 0", name="runs_money_not_negative"),
        sa.CheckConstraint("isfinite(not_before) AND isfinite(deadline_at)", name="runs_times_are_finite"),
        sa.CheckConstraint("length(public_id) BETWEEN 1 AND 200", name="runs_public_id_length"),
        sa.CheckConstraint("priority BETWEEN -100 AND 100", name="runs_priority"),
        sa.ForeignKeyConstraint(["blocked_by"], ["runs.id"], ondelete="SET NULL"),
        sa.ForeignKeyConstraint(
            ["continues"],
            ["runs.id"],
        ),
        sa.ForeignKeyConstraint(
            ["mutex"],
            ["scopes.key"],
        ),
        sa.ForeignKeyConstraint(
            ["parent_id"],
            ["runs.id"],
        ),
        sa.ForeignKeyConstraint(
            ["requeue_of"],
            ["runs.id"],
        ),
        sa.ForeignKeyConstraint(
            ["root_id"],
            ["runs.id"],
        ),
        sa.ForeignKeyConstraint(
            ["scope"],
            ["scopes.key"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("public_id"),
        comment="A run: what was asked, where it stands, how it ended, what it used. No personal data",
    )
    op.create_index("runs_created", "runs", [sa.literal_column("created_at DESC")], unique=False)
    op.create_index(
        "runs_due", "runs", ["queued_at", "id"], unique=False, postgresql_where=sa.text("state = 'queued'")
    )
    op.create_index(
        "runs_ended",
        "runs",
        [sa.literal_column("ended_at DESC")],
        unique=False,
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )
    op.create_index(
        "runs_occupying",
        "runs",
        ["host", "scope"],
        unique=False,
        postgresql_where=sa.text("state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing')"),
    )
    op.create_index(
        "runs_one_per_folder",
        "runs",
        ["mutex"],
        unique=True,
        postgresql_where=sa.text(
            "mutex IS NOT NULL AND state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing')"
        ),
    )
    op.create_index(
        "runs_root", "runs", ["root_id"], unique=False, postgresql_where=sa.text("root_id IS NOT NULL")
    )
    op.create_index(
        "runs_scope_waiters",
        "runs",
        ["scope", "queued_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'deferred', 'held')"),
    )
    op.create_index(
        "runs_wake",
        "runs",
        ["not_before"],
        unique=False,
        postgresql_where=sa.text("state IN ('deferred', 'held')"),
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False, comment="host:pid:random"),
        sa.Column("host", sa.Text(), nullable=False, comment="The host it works on"),
        sa.Column("pid", sa.Integer(), nullable=False, comment="Its process id there"),
        sa.Column("version", sa.Text(), nullable=False, comment="The pidispatch it runs"),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it registered",
        ),
        sa.Column(
            "heartbeat_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Last sign of life",
        ),
        sa.ForeignKeyConstraint(
            ["host"],
            ["hosts.name"],
        ),
        sa.PrimaryKeyConstraint("id"),
        comment="A worker process; an old heartbeat means it is gone",
    )
    op.create_index("workers_host", "workers", ["host", "heartbeat_at"], unique=False)
    op.create_table(
        "deliveries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="Surrogate key"),
        sa.Column("source", sa.Text(), nullable=False, comment="The forge, or poll"),
        sa.Column("delivery_id", sa.Text(), nullable=False, comment="The source's id of the event"),
        sa.Column("body_hash", sa.LargeBinary(), nullable=True, comment="SHA-256 of the body"),
        sa.Column("event", sa.Text(), nullable=True, comment="The event's name"),
        sa.Column("action", sa.Text(), nullable=True, comment="The event's action"),
        sa.Column("repo", sa.Text(), nullable=True, comment="Repository"),
        sa.Column("number", sa.Integer(), nullable=True, comment="Issue or pull request"),
        sa.Column("sender_id", sa.Text(), nullable=True, comment="The sender's id, never a name"),
        sa.Column("decision", sa.Text(), nullable=False, comment="What was decided of it"),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why, as a word"),
        sa.Column("run_id", sa.BigInteger(), nullable=True, comment="The run it led to"),
        sa.Column(
            "received_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it arrived",
        ),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("source", "delivery_id", name="deliveries_identity"),
        comment="One event and what was decided of it, dropped ones too",
    )
    op.create_index("deliveries_body", "deliveries", ["source", "body_hash", "received_at"], unique=False)
    op.create_index(
        "deliveries_received", "deliveries", [sa.literal_column("received_at DESC")], unique=False
    )
    op.create_table(
        "one_shots",
        sa.Column(
            "key", sa.Text(), nullable=False, comment="The entry's id, else a hash of what identifies it"
        ),
        sa.Column("trigger_type", sa.Text(), nullable=True, comment="Type of the trigger"),
        sa.Column(
            "trigger_index", sa.Integer(), nullable=True, comment="Its place in the file; display only"
        ),
        sa.Column("repo", sa.Text(), nullable=True, comment="Repository"),
        sa.Column("number", sa.Integer(), nullable=True, comment="Issue or pull request"),
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run that spent it"),
        sa.Column(
            "spent_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was spent",
        ),
        sa.Column(
            "marked_at", sa.DateTime(timezone=True), nullable=True, comment="When the file's mark was written"
        ),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.PrimaryKeyConstraint("key"),
        comment="A spent one-shot trigger; the key is its identity, the index is display only",
    )
    op.create_table(
        "provider_calls",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False, comment="Surrogate key"),
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run that called"),
        sa.Column("attempt", sa.SmallInteger(), nullable=False, comment="The attempt that called"),
        sa.Column("host", sa.Text(), nullable=False, comment="The host whose gateway passed it on"),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider, as pi names it"),
        sa.Column("model", sa.Text(), nullable=False, comment="Model, as the request named it"),
        sa.Column(
            "api", sa.Text(), nullable=False, comment="Wire API: openai-completions or anthropic-messages"
        ),
        sa.Column(
            "state",
            sa.Text(),
            server_default=sa.text("'held'"),
            nullable=False,
            comment="held while open, settled when measured, assumed when nobody could measure it",
        ),
        sa.Column(
            "held_micros",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Micro-dollars reserved for this call",
        ),
        sa.Column(
            "opened_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Before its first byte went upstream",
        ),
        sa.Column(
            "settled_at", sa.DateTime(timezone=True), nullable=True, comment="When it was settled or assumed"
        ),
        sa.Column(
            "status",
            sa.Integer(),
            nullable=True,
            comment="The provider's HTTP status; 0 when it did not answer",
        ),
        sa.Column(
            "stop_reason", sa.Text(), nullable=True, comment="stop, tool_use, length, error or aborted"
        ),
        sa.Column(
            "tokens_in",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens in, without cached ones",
        ),
        sa.Column(
            "tokens_out", sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment="Tokens out"
        ),
        sa.Column(
            "tokens_cache_read",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens read from the provider's cache",
        ),
        sa.Column(
            "tokens_cache_write",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens written to the provider's cache",
        ),
        sa.Column(
            "tokens_reasoning",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Of the tokens out, those of reasoning",
        ),
        sa.Column(
            "measured",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="False: the provider reported nothing, this is an estimate",
        ),
        sa.Column(
            "cost_micros",
            sa.BigInteger(),
            nullable=True,
            comment="Micro-dollars; null while no price is known",
        ),
        sa.CheckConstraint("(state = 'held') = (settled_at IS NULL)", name="held_call_is_open"),
        sa.CheckConstraint("state IN ('held', 'settled', 'assumed')", name="provider_calls_state"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
        comment="One model call: written before its first byte goes upstream, settled after",
    )
    op.create_index(
        "provider_calls_open",
        "provider_calls",
        ["host", "opened_at"],
        unique=False,
        postgresql_where=sa.text("state = 'held'"),
    )
    op.create_index("provider_calls_run", "provider_calls", ["run_id", "attempt"], unique=False)
    op.create_table(
        "reservations",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run that holds it"),
        sa.Column("window_id", sa.BigInteger(), nullable=False, comment="The window it is held in"),
        sa.Column(
            "state",
            sa.Text(),
            server_default=sa.text("'held'"),
            nullable=False,
            comment="held, settled or released",
        ),
        sa.Column(
            "held",
            sa.BigInteger(),
            nullable=False,
            comment="What was reserved at admission, in the window's unit",
        ),
        sa.Column("settled", sa.BigInteger(), nullable=True, comment="What it came to"),
        sa.Column(
            "counted",
            sa.BigInteger(),
            sa.Computed(
                "CASE state WHEN 'held' THEN held WHEN 'settled' THEN settled ELSE 0 END", persisted=True
            ),
            nullable=False,
            comment="What it counts in its window now",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was reserved",
        ),
        sa.Column(
            "closed_at", sa.DateTime(timezone=True), nullable=True, comment="When it was settled or released"
        ),
        sa.CheckConstraint("(state = 'held') = (closed_at IS NULL)", name="held_is_open"),
        sa.CheckConstraint("(state = 'settled') = (settled IS NOT NULL)", name="settled_has_amount"),
        sa.CheckConstraint("state IN ('held', 'settled', 'released')", name="reservations_state"),
        sa.CheckConstraint("held >= 0 AND settled >= 0", name="reservations_not_negative"),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.ForeignKeyConstraint(
            ["window_id"],
            ["spend_windows.id"],
        ),
        sa.PrimaryKeyConstraint("run_id", "window_id"),
        comment="What one run holds in one window: held, then settled or released",
    )
    op.create_index(
        "reservations_open",
        "reservations",
        ["run_id"],
        unique=False,
        postgresql_where=sa.text("state = 'held'"),
    )
    op.create_index("reservations_window", "reservations", ["window_id"], unique=False)
    op.create_table(
        "run_attempts",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run"),
        sa.Column("attempt", sa.SmallInteger(), nullable=False, comment="Counts from 1; names the container"),
        sa.Column("host", sa.Text(), nullable=False, comment="Where its box was made"),
        sa.Column("engine_id", sa.Text(), nullable=True, comment="The Docker engine's own id"),
        sa.Column(
            "container_name", sa.Text(), nullable=True, comment="pi-job-<installation>-<run>-<attempt>"
        ),
        sa.Column("container_id", sa.Text(), nullable=True, comment="The engine's id of its container"),
        sa.Column("image_id", sa.Text(), nullable=True, comment="The engine's id of its image"),
        sa.Column(
            "admitted_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was admitted",
        ),
        sa.Column(
            "boxed_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When its container had been created",
        ),
        sa.Column(
            "go_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When its box got its go: from here it is charged",
        ),
        sa.Column(
            "exited_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When its box ended, by the engine",
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True, comment="When it was judged"),
        sa.Column("exit_code", sa.Integer(), nullable=True, comment="The engine's"),
        sa.Column(
            "oom_killed",
            sa.Boolean(),
            nullable=True,
            comment="Whether the engine saw a kill for memory in it",
        ),
        sa.Column(
            "outcome", sa.Text(), nullable=True, comment="completed, policy, failed, lost or never-started"
        ),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why, as a word"),
        sa.Column("why", sa.Text(), nullable=True, comment="A second word"),
        sa.Column(
            "reported",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=True,
            comment="The runner's report, or its exit line",
        ),
        sa.Column(
            "report_verified",
            sa.Boolean(),
            nullable=True,
            comment="Signed with the key that came with the go",
        ),
        sa.CheckConstraint(
            "outcome IN ('completed', 'policy', 'failed', 'lost', 'never-started')",
            name="run_attempts_outcome",
        ),
        sa.CheckConstraint("attempt > 0", name="run_attempts_attempt_positive"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "attempt"),
        sa.UniqueConstraint("container_id"),
        sa.UniqueConstraint("container_name"),
        comment="One attempt of a run; allocated at admission, before its container exists",
    )
    op.create_table(
        "run_payloads",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run"),
        sa.Column(
            "folder",
            sa.LargeBinary(),
            nullable=True,
            comment="The folder's path, as bytes of the file system",
        ),
        sa.Column("folder_given", sa.LargeBinary(), nullable=True, comment="The folder as it was asked for"),
        sa.Column("task", sa.LargeBinary(), nullable=True, comment="What the agent is told, at most 1 MiB"),
        sa.Column("task_bytes", sa.BigInteger(), nullable=True, comment="Length as given, before any cut"),
        sa.Column("title", sa.LargeBinary(), nullable=True, comment="Title of an issue"),
        sa.Column("body", sa.LargeBinary(), nullable=True, comment="Body of an issue"),
        sa.Column("event", sa.LargeBinary(), nullable=True, comment="What /job/event.json holds"),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it arrived",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it may be deleted: seven days after the end",
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id"),
        comment="Untrusted bytes of a run; deleted 7 days after its end",
    )
    op.create_index(
        "run_payloads_expiry",
        "run_payloads",
        ["expires_at"],
        unique=False,
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )
    op.create_table(
        "run_usage",
        sa.Column("run_id", sa.BigInteger(), nullable=False, comment="The run"),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider"),
        sa.Column("model", sa.Text(), nullable=False, comment="Model"),
        sa.Column(
            "calls",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Calls of all attempts",
        ),
        sa.Column(
            "failed_calls",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Of them, those the provider did not answer with success",
        ),
        sa.Column(
            "estimated_calls",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Of them, those whose usage is an estimate",
        ),
        sa.Column(
            "tokens_in",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens in, without cached ones",
        ),
        sa.Column(
            "tokens_out", sa.BigInteger(), server_default=sa.text("0"), nullable=False, comment="Tokens out"
        ),
        sa.Column(
            "tokens_cache_read",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens read from the provider's cache",
        ),
        sa.Column(
            "tokens_cache_write",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Tokens written to the provider's cache",
        ),
        sa.Column(
            "tokens_reasoning",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Of the tokens out, those of reasoning",
        ),
        sa.Column(
            "cost_micros",
            sa.BigInteger(),
            nullable=True,
            comment="Micro-dollars; null while no price is known",
        ),
        sa.Column(
            "cost_class", sa.Text(), nullable=True, comment="metered, floor, plan, estimate or unrated"
        ),
        sa.Column("price_version", sa.Text(), nullable=True, comment="Which prices were used"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "provider", "model"),
        comment="Tokens, calls and cost of one model in one run: the sum of settled calls",
    )
    op.create_table(
        "schedule_slots",
        sa.Column("schedule", sa.Text(), nullable=False, comment="The schedule's id"),
        sa.Column("planned_at", sa.DateTime(timezone=True), nullable=False, comment="The planned instant"),
        sa.Column("state", sa.Text(), nullable=False, comment="ran, deferred, skipped or missed"),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why, as a word"),
        sa.Column("run_id", sa.BigInteger(), nullable=True, comment="The run it started"),
        sa.Column(
            "decided_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When this was decided",
        ),
        sa.CheckConstraint("state IN ('ran', 'deferred', 'skipped', 'missed')", name="schedule_slots_state"),
        sa.ForeignKeyConstraint(
            ["run_id"],
            ["runs.id"],
        ),
        sa.PrimaryKeyConstraint("schedule", "planned_at"),
        comment="One planned instant of one schedule, and what became of it",
    )
    op.execute(RULES)


def downgrade() -> None:
    op.execute(UNDO)
    op.drop_table("schedule_slots")
    op.drop_table("run_usage")
    op.drop_index(
        "run_payloads_expiry", table_name="run_payloads", postgresql_where=sa.text("expires_at IS NOT NULL")
    )
    op.drop_table("run_payloads")
    op.drop_table("run_attempts")
    op.drop_index("reservations_window", table_name="reservations")
    op.drop_index("reservations_open", table_name="reservations", postgresql_where=sa.text("state = 'held'"))
    op.drop_table("reservations")
    op.drop_index("provider_calls_run", table_name="provider_calls")
    op.drop_index(
        "provider_calls_open", table_name="provider_calls", postgresql_where=sa.text("state = 'held'")
    )
    op.drop_table("provider_calls")
    op.drop_table("one_shots")
    op.drop_index("deliveries_received", table_name="deliveries")
    op.drop_index("deliveries_body", table_name="deliveries")
    op.drop_table("deliveries")
    op.drop_index("workers_host", table_name="workers")
    op.drop_table("workers")
    op.drop_index("runs_wake", table_name="runs", postgresql_where=sa.text("state IN ('deferred', 'held')"))
    op.drop_index(
        "runs_scope_waiters",
        table_name="runs",
        postgresql_where=sa.text("state IN ('queued', 'deferred', 'held')"),
    )
    op.drop_index("runs_root", table_name="runs", postgresql_where=sa.text("root_id IS NOT NULL"))
    op.drop_index(
        "runs_one_per_folder",
        table_name="runs",
        postgresql_where=sa.text(
            "mutex IS NOT NULL AND state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing')"
        ),
    )
    op.drop_index(
        "runs_occupying",
        table_name="runs",
        postgresql_where=sa.text("state IN ('admitted', 'preparing', 'running', 'stopping', 'finishing')"),
    )
    op.drop_index("runs_ended", table_name="runs", postgresql_where=sa.text("ended_at IS NOT NULL"))
    op.drop_index("runs_due", table_name="runs", postgresql_where=sa.text("state = 'queued'"))
    op.drop_index("runs_created", table_name="runs")
    op.drop_table("runs")
    op.drop_table("spend_windows")
    op.drop_table("scopes")
    op.drop_table("hosts")
    op.drop_table("audit_log")
