"""The tables: one class a row kind, with the rules that the database itself keeps."""

from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Computed,
    Date,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from pidispatch.domain.run import Outcome, Result, State
from pidispatch.domain.triggers import Missed
from pidispatch.store.startable import OCCUPYING_SQL

TOKEN = "^[a-z][a-z0-9-]{0,63}$"  # noqa: S105 - the grammar of a reason word


def one_of(column: str, words: type[State | Outcome | Result | Missed] | tuple[str, ...]) -> str:
    """SQL that holds when `column` is null or one of the words."""
    listed = ", ".join(f"'{word}'" for word in words)
    return f"{column} IN ({listed})"


class Base(DeclarativeBase):
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        str: Text(),
        int: Integer(),
        datetime: DateTime(timezone=True),
        date: Date(),
        bytes: LargeBinary(),
        dict[str, Any]: JSONB(),
    }


def _key(comment: str) -> Mapped[int]:
    return mapped_column(BigInteger, Identity(always=True), primary_key=True, comment=comment)


def _now(comment: str) -> Mapped[datetime]:
    return mapped_column(server_default=func.now(), comment=comment)


def _count(comment: str) -> Mapped[int]:
    return mapped_column(BigInteger, server_default=text("0"), comment=comment)


class Scope(Base):
    """A scope: a repository, a folder, a folder's inode, or `*` for everything."""

    __tablename__ = "scopes"
    __table_args__ = (
        CheckConstraint("occupied >= 0", name="scopes_occupied_not_negative"),
        CheckConstraint('"limit" IS NULL OR "limit" >= 1', name="scopes_limit_positive"),
        {"comment": "A scope: locked by every admission and every ending of its runs"},
    )

    key: Mapped[str] = mapped_column(
        primary_key=True, comment="*, folder:<hash>, inode:<host>:<dev>:<ino>, or a forge's repository"
    )
    occupied: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Runs of this scope in an occupying state"
    )
    limit: Mapped[int | None] = mapped_column(comment="Runs at a time; null is no limit")
    last_started_at: Mapped[datetime | None] = mapped_column(
        comment="Scopes take turns: the longest ago first"
    )
    paused_at: Mapped[datetime | None] = mapped_column(comment="Set while an operator holds this scope back")
    paused_by: Mapped[str | None] = mapped_column(comment="Who paused it: user@host")
    stopped_at: Mapped[datetime | None] = mapped_column(
        comment="Set while an operator has every call of its runs refused"
    )


class Subject(Base):
    """What runs are about."""

    __tablename__ = "subjects"
    __table_args__ = (
        Index("subjects_arrived", "arrived_at"),
        {"comment": "What runs are about: locked by each arrival for it, and by nothing else"},
    )

    key: Mapped[str] = mapped_column(primary_key=True, comment="A hash of scope, item and lane")
    scope: Mapped[str] = mapped_column(comment="A folder's scope, or <forge>:<repository>")
    item: Mapped[str] = mapped_column(comment="#<number>, !<number>, or a hash of the task")
    lane: Mapped[str] = mapped_column(comment="The flow or command, on a close and of a replica apart")
    arrived_at: Mapped[datetime] = _now("When something for it arrived last")


class Run(Base):
    """A run, from being asked for to its end. Free of personal data by construction."""

    __tablename__ = "runs"
    __table_args__ = (
        CheckConstraint("length(public_id) BETWEEN 1 AND 200", name="runs_public_id_length"),
        CheckConstraint(one_of("kind", ("local", "github", "gitlab", "forgejo", "azure")), name="runs_kind"),
        CheckConstraint(one_of("state", State), name="runs_state"),
        CheckConstraint(one_of("outcome", Outcome), name="runs_outcome"),
        CheckConstraint(one_of("result", Result), name="runs_result"),
        CheckConstraint("priority BETWEEN -100 AND 100", name="runs_priority"),
        CheckConstraint("attempt BETWEEN 0 AND 99", name="runs_attempt"),
        CheckConstraint("cost_cap_micros >= 0 AND cost_micros >= 0", name="runs_money_not_negative"),
        CheckConstraint(f"why ~ '{TOKEN}'", name="runs_why_is_a_word"),
        CheckConstraint(f"reason ~ '{TOKEN}'", name="runs_reason_is_a_word"),
        CheckConstraint(f"cause ~ '{TOKEN}'", name="runs_cause_is_a_word"),
        CheckConstraint("isfinite(not_before) AND isfinite(deadline_at)", name="runs_times_are_finite"),
        CheckConstraint("kind <> 'local' OR pinned_host IS NOT NULL", name="local_run_has_a_host"),
        CheckConstraint(
            "(state = 'ended') = (ended_at IS NOT NULL) AND (ended_at IS NULL) = (outcome IS NULL)",
            name="ended_has_outcome",
        ),
        CheckConstraint("state NOT IN ('deferred', 'held') OR cause IS NOT NULL", name="waiting_has_cause"),
        CheckConstraint(
            f"state NOT IN ({OCCUPYING_SQL}) OR (host IS NOT NULL AND attempt > 0)",
            name="occupying_has_owner",
        ),
        Index(
            "runs_one_per_folder",
            "mutex",
            unique=True,
            postgresql_where=text(f"mutex IS NOT NULL AND state IN ({OCCUPYING_SQL})"),
        ),
        Index("runs_wake", "not_before", postgresql_where=text("state IN ('deferred', 'held')")),
        Index(
            "runs_scope_waiters",
            "scope",
            "queued_at",
            postgresql_where=text("state IN ('queued', 'deferred', 'held')"),
        ),
        Index("runs_occupying", "host", "scope", postgresql_where=text(f"state IN ({OCCUPYING_SQL})")),
        Index("runs_ended", text("ended_at DESC"), postgresql_where=text("ended_at IS NOT NULL")),
        Index("runs_created", text("created_at DESC")),
        Index("runs_continues", "continues", postgresql_where=text("continues IS NOT NULL")),
        Index("runs_root", "root_id", postgresql_where=text("root_id IS NOT NULL")),
        Index(
            "runs_subject", "subject", text("created_at DESC"), postgresql_where=text("subject IS NOT NULL")
        ),
        Index(
            "runs_subject_live",
            "subject",
            postgresql_where=text("subject IS NOT NULL AND ended_at IS NULL"),
        ),
        Index(
            "runs_trigger_live",
            "trigger_id",
            postgresql_where=text("trigger_id IS NOT NULL AND ended_at IS NULL"),
        ),
        {"comment": "A run: what was asked, where it stands, how it ended, what it used. No personal data"},
    )

    id: Mapped[int] = _key("Surrogate key; names the container")
    public_id: Mapped[str] = mapped_column(
        unique=True, comment="The id people see; a repeat of it is a duplicate"
    )
    kind: Mapped[str] = mapped_column(server_default=text("'local'"), comment="local or a forge's kind")
    target: Mapped[str] = mapped_column(comment="local:<basename of the folder>, or repository and number")
    scope: Mapped[str] = mapped_column(ForeignKey("scopes.key"), comment="What limits and pauses apply to")
    mutex: Mapped[str | None] = mapped_column(
        ForeignKey("scopes.key"),
        comment="The folder by device and inode, set at admission: one run at a time",
    )
    mutex_within: Mapped[list[str]] = mapped_column(
        ARRAY(Text),
        server_default=text("'{}'"),
        comment="The same of the directories that the folder lies in: no run works in one of them meanwhile",
    )
    folder_owner: Mapped[int | None] = mapped_column(
        BigInteger, comment="The folder's user at admission; a folder that was given away is another one"
    )
    pinned_host: Mapped[str | None] = mapped_column(comment="The only host that may run it (folders)")
    trigger_type: Mapped[str] = mapped_column(
        comment="cli, api, cron, label, comment, pull_request, issue, chain"
    )
    trigger_id: Mapped[str | None] = mapped_column(comment="The trigger's own id")
    trigger_index: Mapped[int | None] = mapped_column(comment="The trigger's place in its file; display only")
    flow: Mapped[str | None] = mapped_column(comment="The skill the agent is told to use")
    command: Mapped[str | None] = mapped_column(
        comment="The command line of a command run, without its slash"
    )
    subject: Mapped[str | None] = mapped_column(
        comment="Key of what it is about, null for a run that is alone; the subject's row goes once it is idle"
    )
    one_shot: Mapped[str | None] = mapped_column(comment="Key of the one-shot trigger that it spends")
    project: Mapped[str | None] = mapped_column(comment="Id of the project it counted for, set at admission")
    priority: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("0"), comment="A step is worth ten minutes of waiting"
    )
    provider: Mapped[str | None] = mapped_column(comment="As asked; from admission on, as used")
    model: Mapped[str | None] = mapped_column(comment="As asked; from admission on, as used")
    image: Mapped[str | None] = mapped_column(comment="As asked; from admission on, as used")
    backend: Mapped[str] = mapped_column(server_default=text("'local'"), comment="Where boxes run")
    max_turns: Mapped[int | None] = mapped_column(comment="Turns it may take; from admission on, as in force")
    max_tokens: Mapped[int | None] = mapped_column(BigInteger, comment="Tokens it may use; null is no limit")
    cost_cap_micros: Mapped[int | None] = mapped_column(
        BigInteger, comment="Micro-dollars it may spend; from admission on, as in force"
    )
    allowed_models: Mapped[list[str] | None] = mapped_column(
        ARRAY(Text), comment="provider/model it may call; from admission on, as in force; null is any"
    )
    cost_cap_asked: Mapped[int | None] = mapped_column(
        BigInteger, comment="Micro-dollars it was to spend at most; a requeue asks for the same"
    )
    models_asked: Mapped[list[str] | None] = mapped_column(
        ARRAY(Text), comment="provider/model that it was to call alone; a requeue asks for the same"
    )
    excluded_tools: Mapped[list[str] | None] = mapped_column(
        ARRAY(Text), comment="Tools of pi that it works without"
    )
    egress_hosts: Mapped[list[str] | None] = mapped_column(
        ARRAY(Text),
        comment="Hosts it may reach besides those that all runs may, as the allowlist writes them",
    )

    state: Mapped[str] = mapped_column(
        server_default=text("'queued'"),
        comment="queued, deferred, held, admitted, preparing, running, stopping, finishing or ended",
    )
    outcome: Mapped[str | None] = mapped_column(comment="completed, policy or failed; only when ended")
    result: Mapped[str | None] = mapped_column(comment="What was achieved")
    reason: Mapped[str | None] = mapped_column(comment="Why it ended so: a word of a closed list")
    why: Mapped[str | None] = mapped_column(comment="A second word: the detail of the reason")
    remarks: Mapped[list[str] | None] = mapped_column(
        ARRAY(Text), comment="Where a completed run may have fallen short of what was asked, as words"
    )
    cause: Mapped[str | None] = mapped_column(comment="Why it waits")
    not_before: Mapped[datetime | None] = mapped_column(comment="Waits at least until then")
    blocked_by: Mapped[int | None] = mapped_column(
        ForeignKey("runs.id", ondelete="SET NULL"), comment="The run it waits for"
    )
    waits_window: Mapped[int | None] = mapped_column(
        BigInteger, comment="With the cause cap-held: the window of which others hold what it needs"
    )
    waits_room_at: Mapped[int | None] = mapped_column(
        BigInteger, comment="It fits as soon as that window's use is no more than this"
    )

    attempt: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("0"), comment="Names the container"
    )
    epoch: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Fencing token: +1 at every transition"
    )
    host: Mapped[str | None] = mapped_column(comment="Where it runs or ran")
    worker: Mapped[str | None] = mapped_column(comment="The process that prepares it")
    created_at: Mapped[datetime] = _now("When it was asked for")
    queued_at: Mapped[datetime] = _now("When its waiting began")
    state_since: Mapped[datetime] = _now("When it entered its state")
    looked_at: Mapped[datetime | None] = mapped_column(
        comment="When a worker took a look at it, to admit it; the others pass it over for a moment"
    )
    admitted_at: Mapped[datetime | None] = mapped_column(comment="When its last attempt was admitted")
    started_at: Mapped[datetime | None] = mapped_column(comment="When its box got its go")
    ended_at: Mapped[datetime | None] = mapped_column(comment="When its record became final")
    deadline_at: Mapped[datetime | None] = mapped_column(
        comment="When its box is stopped; counted from its go"
    )
    stop_requested_at: Mapped[datetime | None] = mapped_column(comment="When somebody asked it to stop")
    stop_reason: Mapped[str | None] = mapped_column(
        comment="operator-cancel, deadline, shutdown or workspace-gone"
    )

    exit_code: Mapped[int | None] = mapped_column(comment="The engine's, of the last attempt")
    turns: Mapped[int | None] = mapped_column(
        comment="Calls that were answered or may have been, by the gateway"
    )
    calls: Mapped[int] = mapped_column(server_default=text("0"), comment="Model calls of all attempts")
    tokens_in: Mapped[int] = _count("Tokens in, without cached ones")
    tokens_out: Mapped[int] = _count("Tokens out")
    tokens_cache_read: Mapped[int] = _count("Tokens read from the provider's cache")
    tokens_cache_write: Mapped[int] = _count("Tokens written to the provider's cache")
    tokens_total: Mapped[int] = mapped_column(
        BigInteger,
        Computed("tokens_in + tokens_out + tokens_cache_read + tokens_cache_write", persisted=True),
        comment="Billed tokens, cache included",
    )
    cost_micros: Mapped[int | None] = mapped_column(
        BigInteger, server_default=text("0"), comment="Micro-dollars"
    )
    cost_class: Mapped[str | None] = mapped_column(
        server_default=text("'metered'"), comment="metered, assumed, estimate, floor, plan or unrated"
    )
    session_resumed: Mapped[bool | None] = mapped_column(comment="Whether it went on with an earlier session")
    session_reason: Mapped[str | None] = mapped_column(comment="Why it did or did not")
    session_bytes: Mapped[int | None] = mapped_column(BigInteger, comment="Size of the kept session")

    parent_id: Mapped[int | None] = mapped_column(
        ForeignKey("runs.id"), comment="The run that asked for it from its outbox"
    )
    root_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"), comment="The first run of its chain")
    requeue_of: Mapped[int | None] = mapped_column(ForeignKey("runs.id"), comment="The run it repeats")
    continues: Mapped[int | None] = mapped_column(
        ForeignKey("runs.id"), comment="The run whose work it goes on with"
    )
    chain_depth: Mapped[int] = mapped_column(
        SmallInteger, server_default=text("0"), comment="0, or one more than its parent's"
    )
    chain_refused: Mapped[int | None] = mapped_column(
        SmallInteger, comment="Requests in its outbox that were refused"
    )
    chain_answers: Mapped[list[dict[str, str]] | None] = mapped_column(
        JSONB, comment="What became of each request in its outbox: a run, or a word"
    )
    replica: Mapped[int | None] = mapped_column(SmallInteger, comment="Which of its replicas it is, from 1")
    replicas: Mapped[int | None] = mapped_column(SmallInteger, comment="How many there are")

    admission: Mapped[dict[str, Any] | None] = mapped_column(comment="The facts the last decision saw")
    reported: Mapped[dict[str, Any] | None] = mapped_column(
        comment="What the runner said; telemetry, never money"
    )


class RunPayload(Base):
    """The untrusted bytes a run needs, and its folder's path."""

    __tablename__ = "run_payloads"
    __table_args__ = (
        Index("run_payloads_expiry", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
        {"comment": "Untrusted bytes of a run; deleted 7 days after its end"},
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"
    )
    folder: Mapped[bytes | None] = mapped_column(comment="The folder's path, as bytes of the file system")
    folder_given: Mapped[bytes | None] = mapped_column(comment="The folder as it was asked for")
    task: Mapped[bytes | None] = mapped_column(comment="What the agent is told, at most 1 MiB")
    task_bytes: Mapped[int | None] = mapped_column(BigInteger, comment="Length as given, before any cut")
    title: Mapped[bytes | None] = mapped_column(comment="Title of an issue")
    body: Mapped[bytes | None] = mapped_column(comment="Body of an issue")
    event: Mapped[bytes | None] = mapped_column(comment="What /job/event.json holds")
    skills_dir: Mapped[bytes | None] = mapped_column(comment="Path of the skills it is given, on the host")
    created_at: Mapped[datetime] = _now("When it arrived")
    expires_at: Mapped[datetime | None] = mapped_column(
        comment="When it may be deleted: seven days after the end"
    )


class RunSession(Base):
    """The session of a run that stopped at a cap."""

    __tablename__ = "run_sessions"
    __table_args__ = (
        CheckConstraint("length(session) > 0", name="run_sessions_holds_something"),
        CheckConstraint("isfinite(expires_at)", name="run_sessions_times_are_finite"),
        Index("run_sessions_expiry", "expires_at"),
        {
            "comment": "What pi wrote of a run that stopped at a cap, for the run that goes on; untrusted; "
            "deleted 7 days after the end"
        },
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run that stopped"
    )
    session: Mapped[bytes] = mapped_column(comment="The transcript, with known secrets hidden")
    pi_version: Mapped[str | None] = mapped_column(
        comment="The pi that wrote it: another one may not read it"
    )
    kept_at: Mapped[datetime] = _now("When the run ended")
    expires_at: Mapped[datetime] = mapped_column(comment="When it may be deleted")


class RunWait(Base):
    """What a run waits for before it may start, and how the asking went."""

    __tablename__ = "run_waits"
    __table_args__ = (
        CheckConstraint("jsonb_typeof(conditions) = 'array'", name="run_waits_conditions_listed"),
        CheckConstraint("length(key) BETWEEN 1 AND 500", name="run_waits_key_length"),
        CheckConstraint("checks >= 0 AND faults BETWEEN 0 AND checks", name="run_waits_counts"),
        CheckConstraint(
            one_of("last_answer", ("go", "not-yet", "never", "fault")), name="run_waits_last_answer"
        ),
        CheckConstraint("(lease_until IS NULL) = (lease_by IS NULL)", name="run_waits_lease"),
        CheckConstraint(
            "isfinite(next_check_at) AND isfinite(lease_until)", name="run_waits_times_are_finite"
        ),
        CheckConstraint("NOT holder OR (key IS NOT NULL AND next_check_at IS NOT NULL)", name="holder_waits"),
        Index("run_waits_due", "next_check_at", postgresql_where=text("next_check_at IS NOT NULL")),
        Index("run_waits_one_holder", "key", unique=True, postgresql_where=text("holder")),
        Index("run_waits_let_go", "key", "let_go_at", postgresql_where=text("let_go_at IS NOT NULL")),
        {"comment": "What a run waits for before it may start; it holds no slot and no money meanwhile"},
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"
    )
    conditions: Mapped[list[Any]] = mapped_column(
        JSONB, comment="What must be true, in order: after an instant, or a profile's program says go"
    )
    key: Mapped[str | None] = mapped_column(comment="Of the runs with one key only one is let go")
    holder: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Whether it is the one of its key that is asked after"
    )
    asking: Mapped[bool] = mapped_column(
        server_default=text("false"), comment="Whether the next look asks programs"
    )
    next_check_at: Mapped[datetime | None] = mapped_column(
        server_default=func.now(), comment="When it is looked at again; null once it waits no more"
    )
    held_since: Mapped[datetime | None] = mapped_column(comment="When it was first held")
    asked_since: Mapped[datetime | None] = mapped_column(
        comment="The first answer that was not go: from here the longest wait is counted"
    )
    checks: Mapped[int] = mapped_column(server_default=text("0"), comment="Checks made")
    faults: Mapped[int] = mapped_column(server_default=text("0"), comment="Checks in a row without an answer")
    last_profile: Mapped[str | None] = mapped_column(comment="The profile whose program answered last")
    last_answer: Mapped[str | None] = mapped_column(comment="go, not-yet, never, or fault for none")
    last_at: Mapped[datetime | None] = mapped_column(comment="When it did")
    lease_until: Mapped[datetime | None] = mapped_column(
        comment="Until then nobody else looks at it; later the one who did is taken for dead"
    )
    lease_by: Mapped[str | None] = mapped_column(comment="The worker that looks at it")
    let_go_at: Mapped[datetime | None] = mapped_column(
        comment="When it was queued; for a while others of its key are then refused"
    )
    superseded_by: Mapped[int | None] = mapped_column(
        ForeignKey("runs.id", ondelete="SET NULL"), comment="The run of its key that does its work"
    )


class RunAttempt(Base):
    """One attempt: one container, its go, its end."""

    __tablename__ = "run_attempts"
    __table_args__ = (
        CheckConstraint("attempt > 0", name="run_attempts_attempt_positive"),
        CheckConstraint(
            one_of("outcome", ("completed", "policy", "failed", "lost", "never-started")),
            name="run_attempts_outcome",
        ),
        CheckConstraint(f"refused_reason ~ '{TOKEN}'", name="run_attempts_refused_is_a_word"),
        CheckConstraint("octet_length(telemetry::text) <= 65536", name="run_attempts_telemetry_is_bounded"),
        Index(
            "run_attempts_container_name",
            "container_name",
            unique=True,
            postgresql_where=text("container_name IS NOT NULL"),
        ),
        Index(
            "run_attempts_container_id",
            "container_id",
            unique=True,
            postgresql_where=text("container_id IS NOT NULL"),
        ),
        {"comment": "One attempt of a run; allocated at admission, before its container exists"},
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"
    )
    attempt: Mapped[int] = mapped_column(
        SmallInteger, primary_key=True, comment="Counts from 1; names the container"
    )
    host: Mapped[str] = mapped_column(comment="Where its box was made")
    engine_id: Mapped[str | None] = mapped_column(comment="The Docker engine's own id")
    container_name: Mapped[str | None] = mapped_column(comment="pi-job-<installation>-<run>-<attempt>")
    container_id: Mapped[str | None] = mapped_column(comment="The engine's id of its container")
    image_id: Mapped[str | None] = mapped_column(comment="The engine's id of its image")
    commit_before: Mapped[str | None] = mapped_column(comment="The folder's commit before its agent started")
    admitted_at: Mapped[datetime] = _now("When it was admitted")
    boxed_at: Mapped[datetime | None] = mapped_column(comment="When its container had been created")
    go_at: Mapped[datetime | None] = mapped_column(comment="When its box got its go: from here it is charged")
    exited_at: Mapped[datetime | None] = mapped_column(comment="When its box ended, by the engine")
    ended_at: Mapped[datetime | None] = mapped_column(comment="When it was judged")
    exit_code: Mapped[int | None] = mapped_column(comment="The engine's")
    oom_killed: Mapped[bool | None] = mapped_column(comment="Whether the engine saw a kill for memory in it")
    outcome: Mapped[str | None] = mapped_column(comment="completed, policy, failed, lost or never-started")
    reason: Mapped[str | None] = mapped_column(comment="Why, as a word")
    why: Mapped[str | None] = mapped_column(comment="A second word")
    reported: Mapped[dict[str, Any] | None] = mapped_column(comment="The runner's report, or its exit line")
    telemetry: Mapped[dict[str, Any] | None] = mapped_column(
        comment="What its box said of itself in its exit line, secrets masked; never used for money"
    )
    report_verified: Mapped[bool | None] = mapped_column(comment="Signed with the key that came with the go")
    refused_reason: Mapped[str | None] = mapped_column(comment="Why the gateway last refused a call of it")
    refused_at: Mapped[datetime | None] = mapped_column(comment="When it did")
    refused_needed: Mapped[int | None] = mapped_column(
        BigInteger,
        comment="What that call needed at least, in micro-dollars for cost-cap and tokens for token-cap",
    )
    refused_left: Mapped[int | None] = mapped_column(BigInteger, comment="What was left of the cap then")
    refusals: Mapped[int] = mapped_column(server_default=text("0"), comment="Calls it refused")
    used_micros: Mapped[int] = _count("Micro-dollars that its settled and assumed calls count")
    used_tokens: Mapped[int] = _count("Tokens that they count")
    used_turns: Mapped[int] = _count("Those of them that were answered or may have been")


class ProviderCall(Base):
    """One call to a model provider."""

    __tablename__ = "provider_calls"
    __table_args__ = (
        CheckConstraint(one_of("state", ("held", "settled", "assumed")), name="provider_calls_state"),
        CheckConstraint("(state = 'held') = (settled_at IS NULL)", name="held_call_is_open"),
        Index("provider_calls_run", "run_id", "attempt"),
        Index("provider_calls_open", "run_id", postgresql_where=text("state = 'held'")),
        CheckConstraint(one_of("lowered_by", ("cost-cap", "token-cap")), name="provider_calls_lowered_by"),
        {"comment": "One model call: written before its first byte goes upstream, settled after"},
    )

    id: Mapped[int] = _key("Surrogate key")
    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), comment="The run that called"
    )
    attempt: Mapped[int] = mapped_column(SmallInteger, comment="The attempt that called")
    host: Mapped[str] = mapped_column(comment="The host whose gateway passed it on")
    provider: Mapped[str] = mapped_column(comment="Provider, as pi names it")
    model: Mapped[str] = mapped_column(comment="Model, as the request named it")
    api: Mapped[str] = mapped_column(comment="Wire API: openai-completions or anthropic-messages")
    state: Mapped[str] = mapped_column(
        server_default=text("'held'"),
        comment="held while open, settled when measured, assumed when nobody could measure it",
    )
    held_micros: Mapped[int | None] = mapped_column(
        BigInteger, comment="Micro-dollars reserved for this call; null without a price"
    )
    held_tokens: Mapped[int] = _count("Tokens reserved for this call")
    lowered_by: Mapped[str | None] = mapped_column(
        comment="The cap for whose rest its output was made shorter than asked"
    )
    opened_at: Mapped[datetime] = _now("Before its first byte went upstream")
    settled_at: Mapped[datetime | None] = mapped_column(comment="When it was settled or assumed")
    status: Mapped[int | None] = mapped_column(comment="The provider's HTTP status; 0 when it did not answer")
    stop_reason: Mapped[str | None] = mapped_column(comment="stop, tool_use, length, error or aborted")
    tokens_in: Mapped[int] = _count("Tokens in, without cached ones")
    tokens_out: Mapped[int] = _count("Tokens out")
    tokens_cache_read: Mapped[int] = _count("Tokens read from the provider's cache")
    tokens_cache_write: Mapped[int] = _count("Tokens written to the provider's cache")
    tokens_cache_write_1h: Mapped[int] = _count("Of the tokens written to the cache, those for an hour")
    tokens_reasoning: Mapped[int] = _count("Of the tokens out, those of reasoning")
    measured: Mapped[bool] = mapped_column(
        server_default=text("true"),
        comment="False: its provider did not say what it used, so this is the most it may have",
    )
    cost_micros: Mapped[int | None] = mapped_column(
        BigInteger, comment="Micro-dollars; null while no price is known"
    )
    cost_class: Mapped[str | None] = mapped_column(
        comment="metered, assumed, estimate, floor, plan or unrated"
    )
    price_version: Mapped[str | None] = mapped_column(comment="Which prices were used")
    counted_micros: Mapped[int | None] = mapped_column(
        BigInteger,
        Computed(
            "CASE WHEN state = 'held' THEN held_micros "
            "WHEN state = 'settled' AND measured THEN coalesce(cost_micros, held_micros) "
            "ELSE least(cost_micros, held_micros) END",
            persisted=True,
        ),
        comment="Micro-dollars it counts now; null when neither a price nor a hold says",
    )
    counted_tokens: Mapped[int | None] = mapped_column(
        BigInteger,
        Computed(
            "CASE WHEN state <> 'held' AND status IS NOT NULL "
            "THEN tokens_in + tokens_out + tokens_cache_read + tokens_cache_write ELSE held_tokens END",
            persisted=True,
        ),
        comment="Tokens it counts now against the run's cap",
    )


class SpendAdjustment(Base):
    """A figure that came late."""

    __tablename__ = "spend_adjustments"
    __table_args__ = (
        UniqueConstraint("call_id", name="spend_adjustments_once"),
        Index("spend_adjustments_run", "run_id"),
        {"comment": "A figure that came after its call was assumed; rows are only ever added"},
    )

    id: Mapped[int] = _key("Surrogate key")
    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), comment="The run that called"
    )
    call_id: Mapped[int] = mapped_column(
        ForeignKey("provider_calls.id", ondelete="CASCADE"), comment="The call that was assumed"
    )
    tokens_before: Mapped[int] = mapped_column(BigInteger, comment="Tokens on record until then")
    tokens_after: Mapped[int] = mapped_column(BigInteger, comment="Tokens as measured")
    micros_before: Mapped[int | None] = mapped_column(
        BigInteger, comment="Micro-dollars on record until then"
    )
    micros_after: Mapped[int | None] = mapped_column(
        BigInteger, comment="Micro-dollars as measured; null without a price"
    )
    in_windows: Mapped[bool] = mapped_column(
        comment="The run had settled its windows, so these were changed too"
    )
    at: Mapped[datetime] = _now("When the figure came")


class RunUsage(Base):
    """What one model used in one run."""

    __tablename__ = "run_usage"
    __table_args__ = (
        {"comment": "Tokens, calls and cost of one model in one run: the sum of settled calls"},
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"
    )
    provider: Mapped[str] = mapped_column(primary_key=True, comment="Provider")
    model: Mapped[str] = mapped_column(primary_key=True, comment="Model")
    calls: Mapped[int] = mapped_column(server_default=text("0"), comment="Calls of all attempts")
    failed_calls: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Of them, those the provider did not answer with success"
    )
    estimated_calls: Mapped[int] = mapped_column(
        server_default=text("0"), comment="Of them, those whose usage is an estimate"
    )
    tokens_in: Mapped[int] = _count("Tokens in, without cached ones")
    tokens_out: Mapped[int] = _count("Tokens out")
    tokens_cache_read: Mapped[int] = _count("Tokens read from the provider's cache")
    tokens_cache_write: Mapped[int] = _count("Tokens written to the provider's cache")
    tokens_reasoning: Mapped[int] = _count("Of the tokens out, those of reasoning")
    cost_micros: Mapped[int | None] = mapped_column(
        BigInteger, comment="Micro-dollars; null while no price is known"
    )
    cost_class: Mapped[str | None] = mapped_column(
        comment="metered, assumed, estimate, floor, plan or unrated"
    )
    price_version: Mapped[str | None] = mapped_column(comment="Which prices were used")


class EgressUse(Base):
    """What a run did at one host outside of its box, or tried to."""

    __tablename__ = "egress_uses"
    __table_args__ = (
        CheckConstraint("length(host) BETWEEN 1 AND 255", name="egress_uses_host_is_short"),
        CheckConstraint("port BETWEEN 0 AND 65535", name="egress_uses_port"),
        CheckConstraint("reason ~ '^[a-z][a-z0-9-]{0,63}$'", name="egress_uses_reason_is_a_word"),
        CheckConstraint(
            "connections >= 0 AND bytes_up >= 0 AND bytes_down >= 0", name="egress_uses_counts_not_negative"
        ),
        CheckConstraint("isfinite(first_at) AND isfinite(last_at)", name="egress_uses_times_are_finite"),
        {
            "comment": "What a run did at one host outside of its box, or tried to; at most 101 of each kind in a run"
        },
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"
    )
    host: Mapped[str] = mapped_column(
        primary_key=True, comment="Name or address as asked for; * is all others"
    )
    port: Mapped[int] = mapped_column(primary_key=True, comment="Its port; 0 with *, or when there was none")
    allowed: Mapped[bool] = mapped_column(primary_key=True, comment="Whether it was connected")
    reason: Mapped[str] = mapped_column(primary_key=True, comment="Which rule let it through, or did not")
    connections: Mapped[int] = _count("Connections made, or tries refused")
    bytes_up: Mapped[int] = _count("Bytes that the run sent")
    bytes_down: Mapped[int] = _count("Bytes that it was sent")
    first_at: Mapped[datetime] = mapped_column(comment="The first of them")
    last_at: Mapped[datetime] = mapped_column(comment="When something last moved")


class SpendWindow(Base):
    """What one scope used of one unit in one period."""

    __tablename__ = "spend_windows"
    __table_args__ = (
        UniqueConstraint("scope", "unit", "period", "starts_on", name="spend_windows_identity"),
        CheckConstraint(one_of("unit", ("runs", "tokens", "micros")), name="spend_windows_unit"),
        CheckConstraint("used >= 0", name="spend_windows_used_not_negative"),
        CheckConstraint(
            "period = 'day' OR (period = 'week' AND extract(isodow FROM starts_on) = 1) "
            "OR (period = 'month' AND extract(day FROM starts_on) = 1)",
            name="spend_windows_period",
        ),
        {"comment": "One window of spend; used is always the sum of its reservations"},
    )

    id: Mapped[int] = _key("Surrogate key")
    scope: Mapped[str] = mapped_column(
        comment="A key of scopes, project:<id>, model:<provider>/<model>, or * for everything"
    )
    unit: Mapped[str] = mapped_column(comment="runs, tokens or micros (micro-dollars)")
    period: Mapped[str] = mapped_column(comment="day (UTC), week (from Monday) or month")
    starts_on: Mapped[date] = mapped_column(comment="First day of the window, UTC")
    used: Mapped[int] = _count("What is counted in it now")


class Reservation(Base):
    """What one run holds or has used in one window."""

    __tablename__ = "reservations"
    __table_args__ = (
        CheckConstraint(one_of("state", ("held", "settled", "released")), name="reservations_state"),
        CheckConstraint("held >= 0 AND settled >= 0", name="reservations_not_negative"),
        CheckConstraint("(state = 'settled') = (settled IS NOT NULL)", name="settled_has_amount"),
        CheckConstraint("(state = 'held') = (closed_at IS NULL)", name="held_is_open"),
        Index("reservations_window", "window_id"),
        Index("reservations_open", "run_id", postgresql_where=text("state = 'held'")),
        {"comment": "What one run holds in one window: held, then settled or released"},
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id"), primary_key=True, comment="The run that holds it"
    )
    window_id: Mapped[int] = mapped_column(
        ForeignKey("spend_windows.id"), primary_key=True, comment="The window it is held in"
    )
    state: Mapped[str] = mapped_column(server_default=text("'held'"), comment="held, settled or released")
    held: Mapped[int] = mapped_column(
        BigInteger, comment="What was reserved at admission, in the window's unit"
    )
    settled: Mapped[int | None] = mapped_column(BigInteger, comment="What it came to")
    counted: Mapped[int] = mapped_column(
        BigInteger,
        Computed("CASE state WHEN 'held' THEN held WHEN 'settled' THEN settled ELSE 0 END", persisted=True),
        comment="What it counts in its window now",
    )
    created_at: Mapped[datetime] = _now("When it was reserved")
    closed_at: Mapped[datetime | None] = mapped_column(comment="When it was settled or released")


class OneShot(Base):
    """A spent one-shot trigger."""

    __tablename__ = "one_shots"
    __table_args__ = (
        Index("one_shots_run", "run_id"),
        Index("one_shots_unmarked", "spent_at", postgresql_where=text("marked_at IS NULL")),
        {"comment": "A spent one-shot trigger; the key is its identity, the index is display only"},
    )

    key: Mapped[str] = mapped_column(
        primary_key=True, comment="The entry's id, else a hash of what identifies it"
    )
    trigger_type: Mapped[str | None] = mapped_column(comment="Type of the trigger")
    trigger_index: Mapped[int | None] = mapped_column(comment="Its place in the file; display only")
    repo: Mapped[str | None] = mapped_column(comment="Repository")
    number: Mapped[int | None] = mapped_column(comment="Issue or pull request")
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), comment="The run that spent it")
    spent_at: Mapped[datetime] = _now("When it was spent")
    marked_at: Mapped[datetime | None] = mapped_column(comment="When the file's mark was written")
    marked_in: Mapped[str | None] = mapped_column(
        comment="Where: <host>:<hash of the file's path>; only there a mark that is gone means anything"
    )


class RearmedOneShot(Base):
    """A one-shot trigger that was spent once and may fire again."""

    __tablename__ = "rearmed_one_shots"
    __table_args__ = (
        Index("rearmed_one_shots_key", "key"),
        {"comment": "What one_shots held before the trigger was armed again"},
    )

    id: Mapped[int] = _key("Surrogate key")
    key: Mapped[str] = mapped_column(comment="The key it had in one_shots")
    run_id: Mapped[int] = mapped_column(ForeignKey("runs.id"), comment="The run that had spent it")
    spent_at: Mapped[datetime] = mapped_column(comment="When it had been spent")
    marked_at: Mapped[datetime | None] = mapped_column(comment="When the file's mark had been written")
    rearmed_at: Mapped[datetime] = _now("When it was armed again")
    rearmed_by: Mapped[str] = mapped_column(comment="Who did it: user@host, or the file")


class Delivery(Base):
    """One event and what was decided of it."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("source", "delivery_id", name="deliveries_identity"),
        Index("deliveries_body", "source", "body_hash", "received_at"),
        Index("deliveries_received", text("received_at DESC")),
        Index("deliveries_run", "run_id", postgresql_where=text("run_id IS NOT NULL")),
        Index(
            "deliveries_occurrence",
            "subject",
            "occurrence",
            postgresql_where=text("occurrence IS NOT NULL"),
        ),
        {"comment": "One event and what was decided of it, dropped ones too"},
    )

    id: Mapped[int] = _key("Surrogate key")
    source: Mapped[str] = mapped_column(comment="The forge, poll, cron, cli or api")
    delivery_id: Mapped[str] = mapped_column(comment="The source's id of the event")
    body_hash: Mapped[bytes | None] = mapped_column(comment="SHA-256 of the body")
    event: Mapped[str | None] = mapped_column(comment="The event's name")
    action: Mapped[str | None] = mapped_column(comment="The event's action")
    repo: Mapped[str | None] = mapped_column(comment="Repository")
    number: Mapped[int | None] = mapped_column(comment="Issue or pull request")
    sender_id: Mapped[str | None] = mapped_column(comment="The sender's id, never a name")
    decision: Mapped[str] = mapped_column(comment="What was decided of it")
    reason: Mapped[str | None] = mapped_column(comment="Why, as a word")
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"), comment="The run it led to")
    subject: Mapped[str | None] = mapped_column(
        comment="Key of what it is about; the subject's row goes once it is idle"
    )
    occurrence: Mapped[str | None] = mapped_column(
        comment="What happened, the same from every source that tells it"
    )
    repeats: Mapped[int] = mapped_column(
        server_default=text("0"), comment="How often it was delivered again under the same id"
    )
    received_at: Mapped[datetime] = _now("When it arrived")


class Schedule(Base):
    """A schedule, and how far it is planned."""

    __tablename__ = "schedules"
    __table_args__ = (
        CheckConstraint(one_of("missed", Missed), name="schedules_missed"),
        CheckConstraint("isfinite(next_at) AND isfinite(planned_until)", name="schedules_times_are_finite"),
        Index("schedules_due", "host", "next_at", postgresql_where=text("removed_at IS NULL")),
        {"comment": "A schedule of a triggers file, and how far it is planned; locked by whoever plans it"},
    )

    id: Mapped[str] = mapped_column(primary_key=True, comment="The entry's id")
    host: Mapped[str] = mapped_column(comment="The host that plans it: its file has the entry")
    served: Mapped[bool] = mapped_column(comment="Whether that host has its folder")
    place: Mapped[int] = mapped_column(comment="Its place in the file, from 0; display only")
    pattern: Mapped[str] = mapped_column(comment="Five fields, or six with seconds first")
    zone: Mapped[str] = mapped_column(comment="The zone of its wall clock")
    zone_of: Mapped[str | None] = mapped_column(
        comment="The host whose zone it follows, also when another plans it; null: its entry names one"
    )
    missed: Mapped[str] = mapped_column(comment="What becomes of missed instants: skip, once or all")
    revision: Mapped[str] = mapped_column(
        comment="Hash of the entries of its host's file: who holds other entries leaves it alone"
    )
    planned_until: Mapped[datetime] = mapped_column(comment="Every instant up to here has its slot")
    next_at: Mapped[datetime | None] = mapped_column(comment="The next instant; null when none will come")
    created_at: Mapped[datetime] = _now("When its entry was first seen")
    changed_at: Mapped[datetime] = _now("When an edit of its entry last took effect")
    removed_at: Mapped[datetime | None] = mapped_column(comment="When its entry was gone")


class ScheduleSlot(Base):
    """One planned instant of one schedule."""

    __tablename__ = "schedule_slots"
    __table_args__ = (
        CheckConstraint(
            one_of("state", ("ran", "deferred", "skipped", "missed")), name="schedule_slots_state"
        ),
        CheckConstraint(f"reason ~ '{TOKEN}'", name="schedule_slots_reason_is_a_word"),
        CheckConstraint("(state IN ('ran', 'deferred')) = (run_id IS NOT NULL)", name="schedule_slots_run"),
        Index("schedule_slots_runs", "run_id", postgresql_where=text("run_id IS NOT NULL")),
        {"comment": "One planned instant of one schedule, and what became of it"},
    )

    schedule: Mapped[str] = mapped_column(primary_key=True, comment="The schedule's id")
    planned_at: Mapped[datetime] = mapped_column(primary_key=True, comment="The planned instant")
    state: Mapped[str] = mapped_column(comment="ran, deferred, skipped or missed")
    reason: Mapped[str | None] = mapped_column(comment="Why, as a word")
    run_id: Mapped[int | None] = mapped_column(ForeignKey("runs.id"), comment="The run it started")
    decided_at: Mapped[datetime] = _now("When this was decided")


class Breaker(Base):
    """A trigger whose last runs failed."""

    __tablename__ = "breakers"
    __table_args__ = (
        CheckConstraint("failures > 0", name="breakers_failures_positive"),
        CheckConstraint(one_of("outcome", ("policy", "failed")), name="breakers_outcome"),
        CheckConstraint(f"reason ~ '{TOKEN}'", name="breakers_reason_is_a_word"),
        CheckConstraint("(opened_at IS NULL) = (probe_at IS NULL)", name="breakers_open_has_probe_time"),
        CheckConstraint("probe IS NULL OR opened_at IS NOT NULL", name="breakers_probe_while_open"),
        CheckConstraint("(opened_at IS NULL) = (backoff_seconds = 0)", name="breakers_open_has_backoff"),
        CheckConstraint("isfinite(opened_at) AND isfinite(probe_at)", name="breakers_times_are_finite"),
        {
            "comment": "A trigger whose last runs all ended at one step; without a row nothing is wrong. Locked "
            "before any scope by who starts a run of it"
        },
    )

    trigger_id: Mapped[str] = mapped_column(primary_key=True, comment="The trigger's own id, as in runs")
    outcome: Mapped[str] = mapped_column(comment="Outcome of the last failure")
    reason: Mapped[str] = mapped_column(comment="Its reason; with the outcome, the step")
    failures: Mapped[int] = mapped_column(comment="Failures in a row at that step")
    opened_at: Mapped[datetime | None] = mapped_column(comment="Since when nothing but probes starts")
    backoff_seconds: Mapped[int] = mapped_column(
        server_default=text("0"), comment="The wait that leads to the next probe; doubles when one fails"
    )
    probe_at: Mapped[datetime | None] = mapped_column(comment="When the next probe may start")
    probe: Mapped[str | None] = mapped_column(
        ForeignKey("runs.public_id", ondelete="SET NULL"), comment="The run that tries now"
    )
    changed_at: Mapped[datetime] = _now("When an ending was last counted here")


class UncountedEnding(Base):
    """A run of a trigger that has ended and is not counted yet."""

    __tablename__ = "uncounted_endings"
    __table_args__ = (
        Index("uncounted_endings_trigger", "trigger_id"),
        {"comment": "Ended runs of triggers; written by the ending itself, deleted by who counts it"},
    )

    run_id: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, comment="The run"
    )
    trigger_id: Mapped[str] = mapped_column(comment="Its trigger")


class OperatorFile(Base):
    """One of the operator's files on one host, or several that are judged together."""

    __tablename__ = "operator_files"
    __table_args__ = (
        CheckConstraint("(bad_since IS NULL) = (cardinality(problems) = 0)", name="operator_files_bad_since"),
        CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name="operator_files_digest"),
        {"comment": "The last good content of each of the operator's files, by host"},
    )

    host: Mapped[str] = mapped_column(primary_key=True, comment="The host whose processes read it")
    name: Mapped[str] = mapped_column(
        primary_key=True, comment="What it is: scoped_limits, triggers and so on"
    )
    place: Mapped[str] = mapped_column(
        primary_key=True, comment="Its path; one a line where several are judged together"
    )
    contents: Mapped[list[bytes | None] | None] = mapped_column(
        ARRAY(LargeBinary()),
        comment="What the files held when they were last good, null for one that is not there; "
        "null in all when a known secret was in it",
    )
    digest: Mapped[str] = mapped_column(comment="sha256 of the contents")
    in_force_since: Mapped[datetime] = mapped_column(comment="When this content was first read")
    problems: Mapped[list[str]] = mapped_column(
        ARRAY(Text()),
        server_default=text("'{}'"),
        comment="What is wrong with the files now; then the content here is in force in their place",
    )
    bad_since: Mapped[datetime | None] = mapped_column(comment="When they were first seen bad")


class HostZone(Base):
    """The zone of the schedules of a host that name none themselves."""

    __tablename__ = "host_zones"
    __table_args__ = (
        CheckConstraint("zone <> ''", name="host_zones_zone"),
        {"comment": "The zone of the schedules without tz, settled once for each host"},
    )

    host: Mapped[str] = mapped_column(primary_key=True, comment="The host")
    zone: Mapped[str] = mapped_column(comment="The zone of its schedules that name none themselves")
    settled_at: Mapped[datetime] = _now("When it was settled")
    settled_by: Mapped[str] = mapped_column(comment="The first worker that planned, or who changed it")


class Host(Base):
    """A machine that runs boxes."""

    __tablename__ = "hosts"
    __table_args__ = (
        CheckConstraint("capacity >= 1", name="hosts_capacity_positive"),
        {"comment": "A machine that runs boxes; locked while one of its slots is taken"},
    )

    name: Mapped[str] = mapped_column(primary_key=True, comment="PI_WORKER_NAME, else the host's name")
    installation: Mapped[str] = mapped_column(
        server_default=text("substr(md5(random()::text || clock_timestamp()::text), 1, 8)"),
        comment="8 hex digits in the labels of its containers: another installation's are never touched",
    )
    capacity: Mapped[int] = mapped_column(comment="Runs at a time on this host")
    engine_id: Mapped[str | None] = mapped_column(comment="The Docker engine's own id")
    refused_at: Mapped[datetime | None] = mapped_column(
        comment="When a worker of another machine was last refused under this name, until one is let in"
    )
    refused: Mapped[str | None] = mapped_column(comment="The engine and place of that worker, for people")
    heartbeat_at: Mapped[datetime] = _now("Last sign of life of any of its workers")
    reconciled_at: Mapped[datetime | None] = mapped_column(
        comment="When rows and containers were last compared"
    )


class Worker(Base):
    """A worker process."""

    __tablename__ = "workers"
    __table_args__ = (
        Index("workers_host", "host", "heartbeat_at"),
        {"comment": "A worker process; an old heartbeat means it is gone"},
    )

    id: Mapped[str] = mapped_column(primary_key=True, comment="host:pid:random")
    host: Mapped[str] = mapped_column(ForeignKey("hosts.name"), comment="The host it works on")
    pid: Mapped[int] = mapped_column(comment="Its process id there")
    version: Mapped[str] = mapped_column(comment="The pidispatch it runs")
    engine_id: Mapped[str | None] = mapped_column(comment="The Docker engine that answers it")
    place: Mapped[str | None] = mapped_column(
        comment="Its machine's boot and its run directory: another place is another machine"
    )
    started_at: Mapped[datetime] = _now("When it registered")
    heartbeat_at: Mapped[datetime] = _now("Last sign of life")


class AuditEntry(Base):
    """An operator's action."""

    __tablename__ = "audit_log"
    __table_args__ = ({"comment": "What operators did; rows are only ever added"},)

    id: Mapped[int] = _key("Surrogate key")
    at: Mapped[datetime] = _now("When it was done")
    actor: Mapped[str] = mapped_column(comment="Who did it: user@host")
    action: Mapped[str] = mapped_column(comment="What was done: pause, resume, set, …")
    subject: Mapped[str | None] = mapped_column(comment="To what: a scope, a run, a key")
    detail: Mapped[dict[str, Any] | None] = mapped_column(
        comment="What a reader needs to understand it, as JSON"
    )
