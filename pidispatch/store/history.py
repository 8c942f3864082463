"""Read runs back: the newest ones, and the one that a person names."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from pidispatch.domain.run import State
from pidispatch.errors import PidispatchError
from pidispatch.store.costs import COST, COST_CLASS, HELD, TURN
from pidispatch.store.database import Database
from pidispatch.store.hosts import SILENT_SECONDS, STRANDED_SQL
from pidispatch.store.rows import record
from pidispatch.store.startable import OCCUPYING_SQL

MOST_NAMED = 5
LONGEST_NAME = 200
LARGEST_KEY = 2**63 - 1

# The numbers of a run are written when an attempt ends; until then they are the sum of its calls.
RECORDS = f"""
SELECT r.id, r.public_id, r.kind, r.target, r.flow, r.trigger_type, r.state, r.outcome, r.result, r.reason, r.why,
       r.remarks,
       w.cause, w.until, w.blocked_by, w.place, r.priority, r.attempt, r.host, r.pinned_host, r.provider, r.model,
       r.image, r.max_turns, r.max_tokens, r.stop_reason, r.exit_code,
       CASE WHEN r.state = 'ended' OR r.started_at IS NULL THEN r.turns ELSE live.turns END AS turns,
       CASE r.state WHEN 'ended' THEN r.calls ELSE live.calls END AS calls,
       CASE r.state WHEN 'ended' THEN r.tokens_in ELSE live.tokens_in END AS tokens_in,
       CASE r.state WHEN 'ended' THEN r.tokens_out ELSE live.tokens_out END AS tokens_out,
       CASE r.state WHEN 'ended' THEN r.tokens_cache_read ELSE live.cache_read END AS tokens_cache_read,
       CASE r.state WHEN 'ended' THEN r.tokens_cache_write ELSE live.cache_write END AS tokens_cache_write,
       CASE r.state WHEN 'ended' THEN r.tokens_total
            ELSE live.tokens_in + live.tokens_out + live.cache_read + live.cache_write END AS tokens_total,
       CASE r.state WHEN 'ended' THEN r.cost_micros ELSE live.cost_micros END AS cost_micros,
       CASE r.state WHEN 'ended' THEN r.cost_class ELSE live.cost_class END AS cost_class, r.cost_cap_micros,
       live.held_micros, r.created_at, r.queued_at, r.state_since, r.admitted_at, r.started_at, r.ended_at,
       r.deadline_at,
       extract(epoch FROM coalesce(r.ended_at, clock_timestamp()) - r.started_at)::numeric(12, 3)::float8 AS seconds,
       q.public_id AS requeue_of, g.public_id AS continues,
       coalesce(r.state IN ({OCCUPYING_SQL}) AND (
                  h.heartbeat_at < clock_timestamp() - interval '{SILENT_SECONDS} seconds'
                  OR EXISTS (SELECT 1 FROM run_attempts a WHERE a.run_id = r.id AND a.attempt = r.attempt AND {STRANDED_SQL})),
                false) AS unreachable, r.trigger_id
FROM runs r LEFT JOIN why_waiting w ON w.public_id = r.public_id
LEFT JOIN runs q ON q.id = r.requeue_of LEFT JOIN runs g ON g.id = r.continues LEFT JOIN hosts h ON h.name = r.host
LEFT JOIN LATERAL (
  SELECT count(*)::int AS calls, (count(*) FILTER (WHERE {TURN}))::int AS turns,
         coalesce(sum(c.tokens_in), 0)::bigint AS tokens_in, coalesce(sum(c.tokens_out), 0)::bigint AS tokens_out,
         coalesce(sum(c.tokens_cache_read), 0)::bigint AS cache_read,
         coalesce(sum(c.tokens_cache_write), 0)::bigint AS cache_write,
         {COST} AS cost_micros, {COST_CLASS} AS cost_class, {HELD} AS held_micros
  FROM provider_calls c WHERE c.run_id = r.id AND r.state <> 'ended') live ON true
"""  # noqa: S608 - fixed words
NEWEST = text(f"""
{RECORDS} WHERE (CAST(:state AS text) IS NULL OR r.state = :state) ORDER BY r.created_at DESC, r.id DESC LIMIT :limit
""")
ONE = text(f"{RECORDS} WHERE r.id = :id")
NAMED = text("SELECT id, public_id FROM runs WHERE public_id = :name OR id = :key")
BEGUN = text("""
SELECT id, public_id FROM runs WHERE starts_with(public_id, :name) OR starts_with(public_id, 'local-' || :name)
ORDER BY created_at DESC, id DESC LIMIT :limit
""")


class NoSuchRun(PidispatchError):
    """No run, or more than one, answers to this name."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What people ask of one run. Tokens are counts, money micro-dollars, `seconds` from its go until its end or now.

    `cost_micros` leaves out what calls under way hold (`held_micros`); `cost_class` says how far it may be trusted.

    `cause`, `until`, `blocked_by` (a public id) and `place` in line are of waiting runs only. `turns` is None for
    a run whose box never got its go. `requeue_of` is the public id of the run that this one repeats, `continues` of the one whose work it goes on with; `unreachable` says
    that no worker of its host gives a sign of life, so that nobody knows how it is: it keeps its slot and its money.
    """

    id: int
    public_id: str
    kind: str
    target: str
    flow: str | None
    trigger_type: str
    state: str
    outcome: str | None
    result: str | None
    reason: str | None
    why: str | None
    remarks: Sequence[str] | None
    cause: str | None
    until: datetime | None
    blocked_by: str | None
    place: int | None
    priority: int
    attempt: int
    host: str | None
    pinned_host: str | None
    provider: str | None
    model: str | None
    image: str | None
    max_turns: int | None
    max_tokens: int | None
    stop_reason: str | None
    exit_code: int | None
    turns: int | None
    calls: int
    tokens_in: int
    tokens_out: int
    tokens_cache_read: int
    tokens_cache_write: int
    tokens_total: int
    cost_micros: int | None
    cost_class: str | None
    cost_cap_micros: int | None
    held_micros: int
    created_at: datetime
    queued_at: datetime
    state_since: datetime
    admitted_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    deadline_at: datetime | None
    seconds: float | None
    requeue_of: str | None
    unreachable: bool
    trigger_id: str | None
    continues: str | None

    @property
    def ended(self) -> bool:
        return self.state == State.ENDED


def list_runs(database: Database, *, limit: int, state: State | None = None) -> Sequence[RunRecord]:
    """The newest `limit` runs, newest first. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        rows = connection.execute(NEWEST, {"limit": limit, "state": None if state is None else str(state)})
        return [record(RunRecord, row) for row in rows]


def find_run(database: Database, name: str) -> RunRecord:
    """The run of this public id, unique beginning of one (`local-` may be left out), or number.

    Raises NoSuchRun, DatabaseUnavailable.
    """
    if not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise NoSuchRun(f"{name[:LONGEST_NAME]!r} is not the name of a run")
    with database.transaction() as connection:
        return read_run(connection, _key_of(connection, name))


def run_record(database: Database, run_id: int) -> RunRecord:
    """The run of this number. Raises NoSuchRun, DatabaseUnavailable."""
    with database.transaction() as connection:
        return read_run(connection, run_id)


def read_run(connection: Connection, run_id: int) -> RunRecord:
    row = connection.execute(ONE, {"id": run_id}).one_or_none()
    if row is None:
        raise NoSuchRun(f"there is no run {run_id}")
    return record(RunRecord, row)


def _key_of(connection: Connection, name: str) -> int:
    number = int(name) if name.isascii() and name.isdecimal() else 0
    key = number if number <= LARGEST_KEY else 0
    found = connection.execute(NAMED, {"name": name, "key": key}).all()
    if not found:
        found = connection.execute(BEGUN, {"name": name, "limit": MOST_NAMED + 1}).all()
    if not found:
        raise NoSuchRun(f"there is no run {name}; `pidispatch runs` lists them")
    if len(found) > 1:
        names = ", ".join(row.public_id for row in found[:MOST_NAMED])
        more = " and more" if len(found) > MOST_NAMED else ""
        raise NoSuchRun(f"several runs begin with {name}: {names}{more}")
    run_id: int = found[0].id
    return run_id
