"""The settings: one frozen value with a typed field for every name."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from pidispatch.config import urls
from pidispatch.config.grammar import GIBIBYTE, MEBIBYTE
from pidispatch.config.kinds import (
    Api,
    AtSigterm,
    BaseUrl,
    BoxRoom,
    Bytes,
    CheckTimeout,
    Count,
    Cpus,
    DatabaseUrl,
    Days,
    Departure,
    Directory,
    Dollars,
    ExistingDirectory,
    Extensions,
    Hours,
    Listen,
    Mark,
    Milliseconds,
    Minutes,
    Models,
    Names,
    NonNegative,
    OffUnlessOne,
    OnUnlessZero,
    OnUnlessZeroOnly,
    OptionalFile,
    Password,
    Paths,
    Percent,
    Positive,
    Profiles,
    RedisUrl,
    Room,
    RunDirectory,
    Timeout,
    Tools,
    WaitInterval,
    Why,
    Word,
    WorkerName,
)
from pidispatch.config.sources import Source

AT_SIGTERM = "PIDISPATCH_AT_SIGTERM"


class Settings(BaseModel):
    """What the operator decided. Made by `load` only; it reads nothing by itself and prints no secret.

    Sizes are bytes, `job_timeout` seconds; None means that a limit or feature is off. Without `database_url` or
    `broker_url` the embedded server is used.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    home: Directory = Field(alias="PIDISPATCH_HOME")
    run_dir: RunDirectory = Field(alias="PIDISPATCH_RUN_DIR")
    database_url: DatabaseUrl = Field(None, alias="DATABASE_URL")
    redis_url: RedisUrl = Field(None, alias="REDIS_URL")
    valkey_url: RedisUrl = Field(None, alias="VALKEY_URL")
    valkey_password: Password = Field(None, alias="VALKEY_PASSWORD")
    worker_name: WorkerName = Field(alias="PI_WORKER_NAME")
    health: Listen = Field(None, alias="PIDISPATCH_HEALTH")

    # What bounds money defaults low; the week, the month and the soft hold are further ceilings to opt into.
    concurrency: Count = Field(3, alias="PI_CONCURRENCY")
    daily_cap: Positive = Field(25, alias="PI_DAILY_CAP")
    weekly_cap: Positive | None = Field(None, alias="PI_WEEKLY_CAP")
    monthly_cap: Positive | None = Field(None, alias="PI_MONTHLY_CAP")
    soft_hold_pct: Percent | None = Field(None, alias="PI_SOFT_HOLD_PCT")
    max_turns: Count = Field(30, alias="PI_MAX_TURNS")
    max_tokens: Positive | None = Field(None, alias="PI_MAX_TOKENS")
    daily_token_cap: Positive | None = Field(None, alias="PI_DAILY_TOKEN_CAP")
    # Reserved before a run starts; that a call in flight stops at the cap comes with the gateway's own metering.
    max_cost_micros: Dollars = Field(None, alias="PI_MAX_COST_USD")
    daily_cost_micros: Dollars = Field(None, alias="PI_DAILY_COST_USD")
    weekly_cost_micros: Dollars = Field(None, alias="PI_WEEKLY_COST_USD")
    monthly_cost_micros: Dollars = Field(None, alias="PI_MONTHLY_COST_USD")
    job_timeout: Timeout = Field(1800, alias="PIDISPATCH_JOB_TIMEOUT")
    at_sigterm: Departure = Field(AtSigterm.LEAVE_RUNS, alias="PIDISPATCH_AT_SIGTERM")

    provider: Annotated[Word, Mark.EMPTY_IS_SET] = Field("anthropic", alias="PI_PROVIDER")
    model: Annotated[Word, Mark.EMPTY_IS_SET] = Field(
        "claude-sonnet-4-5-20250929", alias="PI_MODEL"
    )  # a dated snapshot: the same model tomorrow
    allowed_models: Models = Field((), alias="PI_ALLOWED_MODELS")  # empty: any
    upstreams: Annotated[Mapping[str, BaseUrl], Mark.HIDDEN] = Field(
        default_factory=dict, alias="PIDISPATCH_UPSTREAM_<PROVIDER>"
    )
    provider_apis: Mapping[str, Api] = Field(default_factory=dict, alias="PIDISPATCH_PROVIDER_API_<PROVIDER>")
    connect_timeout: Count = Field(30, alias="PIDISPATCH_CONNECT_TIMEOUT")
    first_byte_timeout: NonNegative | None = Field(None, alias="PIDISPATCH_FIRST_BYTE_TIMEOUT")
    next_byte_timeout: NonNegative = Field(300, alias="PIDISPATCH_NEXT_BYTE_TIMEOUT")
    run_connections: Count = Field(128, alias="PIDISPATCH_RUN_CONNECTIONS")
    all_connections: Count = Field(1024, alias="PIDISPATCH_ALL_CONNECTIONS")
    run_tunnels: Count = Field(64, alias="PIDISPATCH_RUN_TUNNELS")
    all_tunnels: Count = Field(512, alias="PIDISPATCH_ALL_TUNNELS")
    providers_file: OptionalFile = Field(None, alias="PIDISPATCH_PROVIDERS_FILE")
    auth_from_pi: OnUnlessZero = Field(True, alias="PI_AUTH_FROM_PI")
    pi_agent_dir: Directory | None = Field(None, alias="PI_CODING_AGENT_DIR")

    job_image: Word = Field("pi-job:latest", alias="PI_JOB_IMAGE")
    job_memory: Bytes = Field(4 * GIBIBYTE, alias="PI_JOB_MEMORY")
    job_cpus: Cpus = Field(2.0, alias="PI_JOB_CPUS")
    box_files: BoxRoom = Field(256 * MEBIBYTE, alias="PIDISPATCH_BOX_FILES")
    box_file_max: BoxRoom = Field(2 * GIBIBYTE, alias="PIDISPATCH_BOX_FILE_MAX")
    forward_env: Names = Field((), alias="PI_FORWARD_ENV")
    global_pi_dir: ExistingDirectory | None = Field(None, alias="PI_GLOBAL_PI_DIR")
    # On by default: who stages extensions into the overlay has vetted them by that.
    global_allow_extensions: Extensions = Field(True, alias="PI_GLOBAL_ALLOW_EXTENSIONS")

    jobs_dir: Annotated[Directory, Mark.EMPTY_IS_SET] = Field(alias="PI_JOBS_DIR")
    logs_dir: Directory = Field(alias="PI_LOGS_DIR")
    capture_job_logs: OffUnlessOne = Field(False, alias="PI_CAPTURE_JOB_LOGS")
    log_retention_days: Days = Field(30, alias="PI_LOG_RETENTION_DAYS")
    sandbox_dir: Directory = Field(alias="PI_SANDBOX_DIR")
    # 0 keeps nothing here, where elsewhere it keeps for ever: a clone for each run fills any disk.
    sandbox_retention_hours: Hours = Field(24, alias="PI_SANDBOX_RETENTION_HOURS")
    sandbox_pin_days: Days = Field(7, alias="PI_SANDBOX_PIN_DAYS")
    sandbox_idle_minutes: Minutes = Field(30, alias="PI_SANDBOX_IDLE_MINUTES")
    # No default: a transcript holds what the agent read, so nobody keeps one by accident.
    sessions_dir: Directory | None = Field(None, alias="PI_SESSIONS_DIR")
    sessions_ttl_days: Days = Field(14, alias="PI_SESSIONS_TTL_DAYS")
    session_max_bytes: NonNegative = Field(8 * MEBIBYTE, alias="PI_SESSION_MAX_BYTES")
    sessions_allow_gh_source: OffUnlessOne = Field(False, alias="PI_SESSIONS_ALLOW_GH_SOURCE")

    # A full disk ends Postgres, and with it everything: room is kept before that.
    disk_warn: Room = Field(5 * GIBIBYTE, alias="PIDISPATCH_DISK_WARN")
    disk_admit: Room = Field(2 * GIBIBYTE, alias="PIDISPATCH_DISK_ADMIT")
    disk_stop: Room = Field(GIBIBYTE, alias="PIDISPATCH_DISK_STOP")
    ballast: Room = Field(256 * MEBIBYTE, alias="PIDISPATCH_BALLAST")

    triggers_file: OptionalFile = Field(None, alias="PI_TRIGGERS_FILE")
    pause_windows_file: OptionalFile = Field(None, alias="PI_PAUSE_WINDOWS_FILE")
    scoped_limits_file: OptionalFile = Field(None, alias="PI_SCOPED_LIMITS_FILE")
    projects_file: OptionalFile = Field(None, alias="PI_PROJECTS_FILE")
    settings_file: OptionalFile = Field(None, alias="PI_SETTINGS_FILE")
    prices_file: OptionalFile = Field(None, alias="PIDISPATCH_PRICES_FILE")
    egress: OnUnlessZeroOnly = Field(True, alias="PI_EGRESS")
    egress_off_because: Why = Field(None, alias="PIDISPATCH_EGRESS_OFF_BECAUSE")
    egress_file: OptionalFile = Field(None, alias="PIDISPATCH_EGRESS_FILE")
    provider_tools: Tools = Field((), alias="PIDISPATCH_PROVIDER_TOOLS")
    breaker_failures: NonNegative = Field(3, alias="PIDISPATCH_BREAKER_FAILURES")
    breaker_backoff: Timeout = Field(900, alias="PIDISPATCH_BREAKER_BACKOFF")
    wait_profiles: Profiles = Field((), alias="PI_WAIT_PROFILES")
    wait_check_timeout: CheckTimeout = Field(timedelta(seconds=10), alias="PI_WAIT_CHECK_TIMEOUT_MS")
    wait_interval: WaitInterval = Field(timedelta(minutes=1), alias="PI_WAIT_INTERVAL_MS")
    wait_check_slots: Count = Field(1, alias="PI_WAIT_CHECK_SLOTS")
    wait_max: Milliseconds = Field(timedelta(hours=24), alias="PI_WAIT_MAX_MS")
    wait_after_max: Milliseconds = Field(timedelta(days=30), alias="PI_WAIT_AFTER_MAX_MS")
    wait_max_checks: Count = Field(96, alias="PI_WAIT_MAX_CHECKS")
    wait_max_faults: Count = Field(5, alias="PI_WAIT_MAX_FAULTS")
    scheduler_stall_max: Count = Field(2, alias="PI_SCHEDULER_STALL_MAX")
    chain_depth_max: NonNegative = Field(1, alias="PI_CHAIN_DEPTH_MAX")
    chain_max_per_job: NonNegative = Field(2, alias="PI_CHAIN_MAX_PER_JOB")
    chain_tree_runs: Positive | None = Field(None, alias="PIDISPATCH_CHAIN_TREE_RUNS")
    chain_tree_micros: Dollars = Field(None, alias="PIDISPATCH_CHAIN_TREE_USD")
    dispatch_run_per_hour: NonNegative = Field(3, alias="PI_DISPATCH_RUN_PER_HOUR")
    dispatch_run_roots: Paths = Field((), alias="PI_DISPATCH_RUN_ROOTS")  # empty: no folder passes

    sources: Mapping[str, Source] = Field(default_factory=dict, repr=False, exclude=True)

    @property
    def wait_programs(self) -> dict[str, str]:
        """The check program of each profile."""
        return dict(entry.split(":", 1) for entry in self.wait_profiles)

    @property
    def check_slots(self) -> int:
        """How many check programs may run at a time: fewer than runs, so that asking never crowds out working."""
        return min(self.wait_check_slots, max(1, self.concurrency - 1))

    @property
    def broker_url(self) -> SecretStr | None:
        """Where Redis is: REDIS_URL, else VALKEY_URL, with VALKEY_PASSWORD in it unless it holds a password."""
        url = self.redis_url or self.valkey_url
        if url is None:
            return None
        password = self.valkey_password.get_secret_value() if self.valkey_password else None
        return SecretStr(urls.with_password(url.get_secret_value(), password))


FIELDS = {field.alias: name for name, field in Settings.model_fields.items() if field.alias is not None}
"""The field of each variable, in the order of the fields."""


def is_marked(variable: str, mark: Mark) -> bool:
    return mark in Settings.model_fields[FIELDS[variable]].metadata
