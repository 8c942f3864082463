"""Read everything that the rows know of one run."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, text

from pidispatch.domain.runs.budget_warning import stopped_at
from pidispatch.domain.runs.chaintree import ChainAnswer, answers_in
from pidispatch.domain.runs.telemetry import Compared, Measured, Observed, compare
from pidispatch.store.database import Database
from pidispatch.store.read.deliveries import DeliveryRecord, deliveries_of
from pidispatch.store.read.history import RunRecord, read_run
from pidispatch.store.rows import record
from pidispatch.store.runs.costs import COST, COST_CLASS, HELD, PRICES, TURN
from pidispatch.store.runs.egress import EgressRecord, egress_of

ATTEMPTS = text("""
SELECT attempt, host, container_name, container_id, image_id, admitted_at, boxed_at, go_at, exited_at, ended_at,
       exit_code, oom_killed, outcome, reason, why, report_verified, refused_reason, refused_at, refusals,
       refused_needed, refused_left, telemetry
FROM run_attempts WHERE run_id = :id ORDER BY attempt
""")
MEASURED = text(f"""
SELECT c.attempt, c.provider, c.model, count(*) FILTER (WHERE {TURN}) AS turns,
       sum(c.tokens_in + c.tokens_out + c.tokens_cache_read + c.tokens_cache_write)::bigint AS tokens, {COST} AS micros
FROM provider_calls c WHERE c.run_id = :id AND c.state <> 'held' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
""")  # noqa: S608 - fixed words
# A run that has not ended has no usage rows yet: its calls are summed here as they will be at its end.
USAGE = text(f"""
SELECT provider, model, calls, failed_calls, estimated_calls, tokens_in, tokens_out, tokens_cache_read,
       tokens_cache_write, tokens_reasoning, cost_micros, cost_class, price_version, 0::bigint AS held_micros
FROM run_usage WHERE run_id = :id
UNION ALL
SELECT provider, model, count(*)::int,
       (count(*) FILTER (WHERE state <> 'held' AND (status IS NULL OR status NOT BETWEEN 200 AND 299)))::int,
       (count(*) FILTER (WHERE NOT measured OR state = 'assumed'))::int, sum(tokens_in)::bigint,
       sum(tokens_out)::bigint, sum(tokens_cache_read)::bigint, sum(tokens_cache_write)::bigint,
       sum(tokens_reasoning)::bigint, {COST}, {COST_CLASS}, {PRICES}, {HELD}
FROM provider_calls c WHERE run_id = :id AND NOT EXISTS (SELECT 1 FROM run_usage u WHERE u.run_id = :id)
GROUP BY provider, model ORDER BY 1, 2
""")  # noqa: S608 - fixed words
ADJUSTMENTS = text("""
SELECT a.at, c.provider, c.model, a.tokens_before, a.tokens_after, a.micros_before, a.micros_after, a.in_windows
FROM spend_adjustments a JOIN provider_calls c ON c.id = a.call_id WHERE a.run_id = :id ORDER BY a.id
""")
RESERVATIONS = text("""
SELECT w.scope, w.unit, w.period, w.starts_on, v.state, v.held, v.settled, w.used
FROM reservations v JOIN spend_windows w ON w.id = v.window_id WHERE v.run_id = :id
ORDER BY (w.scope = '*'), w.scope, w.unit, array_position(ARRAY['day', 'week', 'month'], w.period)
""")
PAYLOAD = text("""
SELECT folder, task_bytes, coalesce(length(task), 0) AS task_kept_bytes, coalesce(length(event), 0) AS event_bytes,
       expires_at, skills_dir
FROM run_payloads WHERE run_id = :id
""")
CHAIN = text("""
SELECT r.chain_depth AS depth, p.public_id AS parent, t.public_id AS root, r.chain_refused AS refused, r.chain_answers
FROM runs r LEFT JOIN runs p ON p.id = r.parent_id LEFT JOIN runs t ON t.id = r.root_id WHERE r.id = :id
""")
WAIT = text("""
SELECT w.conditions, w.checks, w.faults, w.last_profile, w.last_answer, w.last_at, w.held_since, w.next_check_at,
       w.let_go_at, s.public_id AS superseded_by
FROM run_waits w LEFT JOIN runs s ON s.id = w.superseded_by WHERE w.run_id = :id
""")
SESSION = text("""
SELECT r.session_resumed AS resumed, r.session_reason AS reason, octet_length(s.session) AS kept_bytes,
       s.expires_at AS kept_until, ARRAY(SELECT c.public_id FROM runs c WHERE c.continues = r.id ORDER BY c.id) AS continued_by
FROM runs r LEFT JOIN run_sessions s ON s.run_id = r.id AND s.expires_at > clock_timestamp() WHERE r.id = :id
""")
BOUNDS = text(
    "SELECT cost_cap_micros, cost_cap_asked, allowed_models, excluded_tools FROM runs WHERE id = :id"
)
TELLING = text("SELECT admission, reported FROM runs WHERE id = :id")


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One box: `go_at` is when it was allowed to spend; `report_verified` whether its report was signed.

    `refusals` counts the model calls that the gateway refused, `refused_reason` says why the last one; that one needed at
    least `refused_needed` where `refused_left` was left: micro-dollars for cost-cap, tokens for token-cap. `telemetry` is
    what its box said of itself, `compared` the same beside what was measured.
    """

    attempt: int
    host: str
    container_name: str | None
    container_id: str | None
    image_id: str | None
    admitted_at: datetime
    boxed_at: datetime | None
    go_at: datetime | None
    exited_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    oom_killed: bool | None
    outcome: str | None
    reason: str | None
    why: str | None
    report_verified: bool | None
    refused_reason: str | None
    refused_at: datetime | None
    refusals: int
    refused_needed: int | None
    refused_left: int | None
    telemetry: dict[str, Any] | None
    compared: Sequence[Compared] = ()


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """What one model used in the run, as the gateway measured it; `held_micros` is held by calls under way."""

    provider: str
    model: str
    calls: int
    failed_calls: int
    estimated_calls: int
    tokens_in: int
    tokens_out: int
    tokens_cache_read: int
    tokens_cache_write: int
    tokens_reasoning: int
    cost_micros: int | None
    cost_class: str | None
    price_version: str | None
    held_micros: int


@dataclass(frozen=True, slots=True)
class AdjustmentRecord:
    """A figure that came after its call had been assumed; `in_windows` when it changed what the run had settled."""

    at: datetime
    provider: str
    model: str
    tokens_before: int
    tokens_after: int
    micros_before: int | None
    micros_after: int | None
    in_windows: bool


@dataclass(frozen=True, slots=True)
class ReservationRecord:
    """What the run holds or has used in one window; `used` is the whole window's."""

    scope: str
    unit: str
    period: str
    starts_on: date
    state: str
    held: int
    settled: int | None
    used: int


@dataclass(frozen=True, slots=True)
class PayloadRecord:
    """How large the untrusted bytes are, and where the run works; they are deleted at `expires_at`."""

    folder: str | None
    task_bytes: int | None
    task_kept_bytes: int
    event_bytes: int
    expires_at: datetime | None
    skills_dir: str | None


@dataclass(frozen=True, slots=True)
class ChainRecord:
    """The run's place in its chain: who asked for it (public ids), and what it asked for itself.

    `refused` counts the requests in its outbox that were refused, None before they were judged; of more than 100 only
    the first 100 `answers` are kept.
    """

    depth: int
    parent: str | None
    root: str | None
    refused: int | None
    answers: Sequence[ChainAnswer]


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """What the run waits or waited for before it might start: `conditions` as `[{"after": …}, {"profile": …}]`.

    `faults` are those in a row; `superseded_by` is the run that does its work (a public id).
    """

    conditions: list[Any]
    checks: int
    faults: int
    last_profile: str | None
    last_answer: str | None
    last_at: datetime | None
    held_since: datetime | None
    next_check_at: datetime | None
    let_go_at: datetime | None
    superseded_by: str | None


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """At which cap the run `stopped_at` (cost, tokens, turns), what is kept of it, and which runs went on with it.

    `resumed` and `reason` say whether it went on with an earlier one's conversation, and why or why not; `reason` also why
    nothing is kept.
    """

    stopped_at: str | None
    resumed: bool | None
    reason: str | None
    kept_bytes: int | None
    kept_until: datetime | None
    continued_by: Sequence[str]


@dataclass(frozen=True, slots=True)
class BoundsRecord:
    """What the run must keep within, None where nothing does: micro-dollars, `provider/model`, tools of pi.

    `cost_cap_micros` and `allowed_models` are as in force once it was admitted, as asked before.
    """

    cost_cap_micros: int | None
    cost_cap_asked: int | None
    allowed_models: Sequence[str] | None
    excluded_tools: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class RunDetail:
    """`admission` holds the facts of the last decision, `reported` what the box said of itself (never money)."""

    run: RunRecord
    attempts: Sequence[AttemptRecord]
    usage: Sequence[UsageRecord]
    adjustments: Sequence[AdjustmentRecord]
    reservations: Sequence[ReservationRecord]
    payload: PayloadRecord | None
    admission: dict[str, Any] | None
    reported: dict[str, Any] | None
    chain: ChainRecord
    wait: WaitRecord | None
    asked: Sequence[DeliveryRecord]
    session: SessionRecord
    egress: Sequence[EgressRecord]
    bounds: BoundsRecord


def run_detail(database: Database, run_id: int) -> RunDetail:
    """Raises NoSuchRun, DatabaseUnavailable."""
    asked = {"id": run_id}
    with database.transaction() as connection:
        run = read_run(connection, run_id)
        payload = connection.execute(PAYLOAD, asked).one_or_none()
        chain = connection.execute(CHAIN, asked).one()
        wait = connection.execute(WAIT, asked).one_or_none()
        telling = connection.execute(TELLING, asked).one()
        return RunDetail(
            run=run,
            attempts=_attempts(connection, run_id),
            usage=[record(UsageRecord, row) for row in connection.execute(USAGE, asked)],
            adjustments=[record(AdjustmentRecord, row) for row in connection.execute(ADJUSTMENTS, asked)],
            reservations=[record(ReservationRecord, row) for row in connection.execute(RESERVATIONS, asked)],
            payload=None if payload is None else _payload(payload),
            admission=telling.admission,
            reported=telling.reported,
            chain=record(ChainRecord, chain, answers=answers_in(chain.chain_answers)),
            wait=None if wait is None else record(WaitRecord, wait),
            asked=deliveries_of(connection, run_id),
            session=record(
                SessionRecord,
                connection.execute(SESSION, asked).one(),
                stopped_at=stopped_at(run.outcome, run.reason, run.why),
            ),
            egress=egress_of(connection, run_id),
            bounds=record(BoundsRecord, connection.execute(BOUNDS, asked).one()),
        )


def _attempts(connection: Connection, run_id: int) -> list[AttemptRecord]:
    """Of whether a session was resumed the run's row tells, and that of its last attempt."""
    resumed = connection.execute(SESSION, {"id": run_id}).one().resumed
    rows = connection.execute(ATTEMPTS, {"id": run_id}).all()
    measured: dict[int, list[Measured]] = {}
    for attempt, *model in connection.execute(MEASURED, {"id": run_id}):
        measured.setdefault(attempt, []).append(Measured(*model))
    return [
        _compared(
            record(AttemptRecord, row, compared=()),
            Observed(row.exit_code, measured.get(row.attempt, ()), resumed if row is rows[-1] else None),
        )
        for row in rows
    ]


def _compared(attempt: AttemptRecord, observed: Observed) -> AttemptRecord:
    if attempt.telemetry is None:
        return attempt
    return replace(attempt, compared=compare(attempt.telemetry, observed))


def _payload(row: Any) -> PayloadRecord:
    return record(PayloadRecord, row, folder=_path(row.folder), skills_dir=_path(row.skills_dir))


def _path(path: bytes | None) -> str | None:
    return None if path is None else path.decode(errors="surrogateescape")
