"""What runs used, may use, and tried to reach."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Date,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)

from pidispatch.store.tables.base import METADATA, one_of

PROVIDER_CALLS = Table(
    "provider_calls",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="Surrogate key"),
    Column(
        "run_id", ForeignKey("runs.id", ondelete="CASCADE"), comment="The run that called", nullable=False
    ),
    Column("attempt", SmallInteger, comment="The attempt that called", nullable=False),
    Column("host", Text, comment="The host whose gateway passed it on", nullable=False),
    Column("provider", Text, comment="Provider, as pi names it", nullable=False),
    Column("model", Text, comment="Model, as the request named it", nullable=False),
    Column("api", Text, comment="Wire API: openai-completions or anthropic-messages", nullable=False),
    Column(
        "state",
        Text,
        server_default=text("'held'"),
        comment="held while open, settled when measured, assumed when nobody could measure it",
        nullable=False,
    ),
    Column("held_micros", BigInteger, comment="Micro-dollars reserved for this call; null without a price"),
    Column(
        "held_tokens",
        BigInteger,
        server_default=text("0"),
        comment="Tokens reserved for this call",
        nullable=False,
    ),
    Column("lowered_by", Text, comment="The cap for whose rest its output was made shorter than asked"),
    Column(
        "opened_at",
        DateTime(timezone=True),
        server_default=func.now(),
        comment="Before its first byte went upstream",
        nullable=False,
    ),
    Column("settled_at", DateTime(timezone=True), comment="When it was settled or assumed"),
    Column("status", Integer, comment="The provider's HTTP status; 0 when it did not answer"),
    Column("stop_reason", Text, comment="stop, tool_use, length, error or aborted"),
    Column(
        "tokens_in",
        BigInteger,
        server_default=text("0"),
        comment="Tokens in, without cached ones",
        nullable=False,
    ),
    Column("tokens_out", BigInteger, server_default=text("0"), comment="Tokens out", nullable=False),
    Column(
        "tokens_cache_read",
        BigInteger,
        server_default=text("0"),
        comment="Tokens read from the provider's cache",
        nullable=False,
    ),
    Column(
        "tokens_cache_write",
        BigInteger,
        server_default=text("0"),
        comment="Tokens written to the provider's cache",
        nullable=False,
    ),
    Column(
        "tokens_cache_write_1h",
        BigInteger,
        server_default=text("0"),
        comment="Of the tokens written to the cache, those for an hour",
        nullable=False,
    ),
    Column(
        "tokens_reasoning",
        BigInteger,
        server_default=text("0"),
        comment="Of the tokens out, those of reasoning",
        nullable=False,
    ),
    Column(
        "measured",
        Boolean,
        server_default=text("true"),
        comment="False: its provider did not say what it used, so this is the most it may have",
        nullable=False,
    ),
    Column("cost_micros", BigInteger, comment="Micro-dollars; null while no price is known"),
    Column("cost_class", Text, comment="metered, assumed, estimate, floor, plan or unrated"),
    Column("price_version", Text, comment="Which prices were used"),
    Column(
        "counted_micros",
        BigInteger,
        Computed(
            "CASE WHEN state = 'held' THEN held_micros "
            "WHEN state = 'settled' AND measured THEN coalesce(cost_micros, held_micros) "
            "ELSE least(cost_micros, held_micros) END",
            persisted=True,
        ),
        comment="Micro-dollars it counts now; null when neither a price nor a hold says",
    ),
    Column(
        "counted_tokens",
        BigInteger,
        Computed(
            "CASE WHEN state <> 'held' AND status IS NOT NULL "
            "THEN tokens_in + tokens_out + tokens_cache_read + tokens_cache_write ELSE held_tokens END",
            persisted=True,
        ),
        comment="Tokens it counts now against the run's cap",
    ),
    CheckConstraint(one_of("state", ("held", "settled", "assumed")), name="provider_calls_state"),
    CheckConstraint("(state = 'held') = (settled_at IS NULL)", name="held_call_is_open"),
    Index("provider_calls_run", "run_id", "attempt"),
    Index("provider_calls_open", "run_id", postgresql_where=text("state = 'held'")),
    CheckConstraint(one_of("lowered_by", ("cost-cap", "token-cap")), name="provider_calls_lowered_by"),
    comment="One model call: written before its first byte goes upstream, settled after",
)

SPEND_ADJUSTMENTS = Table(
    "spend_adjustments",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="Surrogate key"),
    Column(
        "run_id", ForeignKey("runs.id", ondelete="CASCADE"), comment="The run that called", nullable=False
    ),
    Column(
        "call_id",
        ForeignKey("provider_calls.id", ondelete="CASCADE"),
        comment="The call that was assumed",
        nullable=False,
    ),
    Column("tokens_before", BigInteger, comment="Tokens on record until then", nullable=False),
    Column("tokens_after", BigInteger, comment="Tokens as measured", nullable=False),
    Column("micros_before", BigInteger, comment="Micro-dollars on record until then"),
    Column("micros_after", BigInteger, comment="Micro-dollars as measured; null without a price"),
    Column(
        "in_windows",
        Boolean,
        comment="The run had settled its windows, so these were changed too",
        nullable=False,
    ),
    Column(
        "at",
        DateTime(timezone=True),
        server_default=func.now(),
        comment="When the figure came",
        nullable=False,
    ),
    UniqueConstraint("call_id", name="spend_adjustments_once"),
    Index("spend_adjustments_run", "run_id"),
    comment="A figure that came after its call was assumed; rows are only ever added",
)

RUN_USAGE = Table(
    "run_usage",
    METADATA,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"),
    Column("provider", Text, primary_key=True, comment="Provider"),
    Column("model", Text, primary_key=True, comment="Model"),
    Column("calls", Integer, server_default=text("0"), comment="Calls of all attempts", nullable=False),
    Column(
        "failed_calls",
        Integer,
        server_default=text("0"),
        comment="Of them, those the provider did not answer with success",
        nullable=False,
    ),
    Column(
        "estimated_calls",
        Integer,
        server_default=text("0"),
        comment="Of them, those whose usage is an estimate",
        nullable=False,
    ),
    Column(
        "tokens_in",
        BigInteger,
        server_default=text("0"),
        comment="Tokens in, without cached ones",
        nullable=False,
    ),
    Column("tokens_out", BigInteger, server_default=text("0"), comment="Tokens out", nullable=False),
    Column(
        "tokens_cache_read",
        BigInteger,
        server_default=text("0"),
        comment="Tokens read from the provider's cache",
        nullable=False,
    ),
    Column(
        "tokens_cache_write",
        BigInteger,
        server_default=text("0"),
        comment="Tokens written to the provider's cache",
        nullable=False,
    ),
    Column(
        "tokens_reasoning",
        BigInteger,
        server_default=text("0"),
        comment="Of the tokens out, those of reasoning",
        nullable=False,
    ),
    Column("cost_micros", BigInteger, comment="Micro-dollars; null while no price is known"),
    Column("cost_class", Text, comment="metered, assumed, estimate, floor, plan or unrated"),
    Column("price_version", Text, comment="Which prices were used"),
    comment="Tokens, calls and cost of one model in one run: the sum of settled calls",
)

EGRESS_USES = Table(
    "egress_uses",
    METADATA,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"),
    Column("host", Text, primary_key=True, comment="Name or address as asked for; * is all others"),
    Column("port", Integer, primary_key=True, comment="Its port; 0 with *, or when there was none"),
    Column("allowed", Boolean, primary_key=True, comment="Whether it was connected"),
    Column("reason", Text, primary_key=True, comment="Which rule let it through, or did not"),
    Column(
        "connections",
        BigInteger,
        server_default=text("0"),
        comment="Connections made, or tries refused",
        nullable=False,
    ),
    Column(
        "bytes_up", BigInteger, server_default=text("0"), comment="Bytes that the run sent", nullable=False
    ),
    Column(
        "bytes_down", BigInteger, server_default=text("0"), comment="Bytes that it was sent", nullable=False
    ),
    Column("first_at", DateTime(timezone=True), comment="The first of them", nullable=False),
    Column("last_at", DateTime(timezone=True), comment="When something last moved", nullable=False),
    CheckConstraint("length(host) BETWEEN 1 AND 255", name="egress_uses_host_is_short"),
    CheckConstraint("port BETWEEN 0 AND 65535", name="egress_uses_port"),
    CheckConstraint("reason ~ '^[a-z][a-z0-9-]{0,63}$'", name="egress_uses_reason_is_a_word"),
    CheckConstraint(
        "connections >= 0 AND bytes_up >= 0 AND bytes_down >= 0", name="egress_uses_counts_not_negative"
    ),
    CheckConstraint("isfinite(first_at) AND isfinite(last_at)", name="egress_uses_times_are_finite"),
    comment="What a run did at one host outside of its box, or tried to; at most 101 of each kind in a run",
)

SPEND_WINDOWS = Table(
    "spend_windows",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="Surrogate key"),
    Column(
        "scope",
        Text,
        comment="A key of scopes, project:<id>, model:<provider>/<model>, or * for everything",
        nullable=False,
    ),
    Column("unit", Text, comment="runs, tokens or micros (micro-dollars)", nullable=False),
    Column("period", Text, comment="day (UTC), week (from Monday) or month", nullable=False),
    Column("starts_on", Date, comment="First day of the window, UTC", nullable=False),
    Column("used", BigInteger, server_default=text("0"), comment="What is counted in it now", nullable=False),
    UniqueConstraint("scope", "unit", "period", "starts_on", name="spend_windows_identity"),
    CheckConstraint(one_of("unit", ("runs", "tokens", "micros")), name="spend_windows_unit"),
    CheckConstraint("used >= 0", name="spend_windows_used_not_negative"),
    CheckConstraint(
        "period = 'day' OR (period = 'week' AND extract(isodow FROM starts_on) = 1) "
        "OR (period = 'month' AND extract(day FROM starts_on) = 1)",
        name="spend_windows_period",
    ),
    comment="One window of spend; used is always the sum of its reservations",
)

RESERVATIONS = Table(
    "reservations",
    METADATA,
    Column("run_id", ForeignKey("runs.id"), primary_key=True, comment="The run that holds it"),
    Column("window_id", ForeignKey("spend_windows.id"), primary_key=True, comment="The window it is held in"),
    Column("state", Text, server_default=text("'held'"), comment="held, settled or released", nullable=False),
    Column(
        "held", BigInteger, comment="What was reserved at admission, in the window's unit", nullable=False
    ),
    Column("settled", BigInteger, comment="What it came to"),
    Column(
        "counted",
        BigInteger,
        Computed("CASE state WHEN 'held' THEN held WHEN 'settled' THEN settled ELSE 0 END", persisted=True),
        comment="What it counts in its window now",
        nullable=False,
    ),
    Column(
        "created_at",
        DateTime(timezone=True),
        server_default=func.now(),
        comment="When it was reserved",
        nullable=False,
    ),
    Column("closed_at", DateTime(timezone=True), comment="When it was settled or released"),
    CheckConstraint(one_of("state", ("held", "settled", "released")), name="reservations_state"),
    CheckConstraint("held >= 0 AND settled >= 0", name="reservations_not_negative"),
    CheckConstraint("(state = 'settled') = (settled IS NOT NULL)", name="settled_has_amount"),
    CheckConstraint("(state = 'held') = (closed_at IS NULL)", name="held_is_open"),
    Index("reservations_window", "window_id"),
    Index("reservations_open", "run_id", postgresql_where=text("state = 'held'")),
    comment="What one run holds in one window: held, then settled or released",
)
