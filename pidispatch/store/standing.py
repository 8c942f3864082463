"""Read what is true of the whole queue now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection, Text, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain.limits import EVERYTHING, Cap, WindowFill, fill_state
from pidispatch.domain.run import Outcome, State
from pidispatch.store.breakers import BreakerRecord, read_open
from pidispatch.store.database import Database
from pidispatch.store.hosts import SILENT_SECONDS
from pidispatch.store.rows import record
from pidispatch.store.startable import OCCUPYING_SQL

STATES = text("SELECT state, count(*) FROM runs WHERE state <> 'ended' GROUP BY state")
ENDED_TODAY = text("""
SELECT outcome, count(*) FROM runs
WHERE ended_at >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' GROUP BY outcome
""")
CAUSES = text("SELECT cause, count(*) FROM why_waiting GROUP BY cause ORDER BY 2 DESC, 1")
WORKERS = text("""
SELECT id, host, pid, version, started_at, heartbeat_at FROM workers
WHERE heartbeat_at > clock_timestamp() - interval '15 seconds' ORDER BY host, started_at, id
""")
HOSTS = text(f"""
SELECT h.name, h.capacity,
       (SELECT count(*) FROM runs r WHERE r.host = h.name AND r.state IN ({OCCUPYING_SQL})) AS used,
       (SELECT count(*) FROM workers w
        WHERE w.host = h.name AND w.heartbeat_at > clock_timestamp() - interval '15 seconds') AS workers,
       h.engine_id, h.heartbeat_at, h.reconciled_at,
       CASE WHEN h.heartbeat_at < clock_timestamp() - interval '{SILENT_SECONDS} seconds'
            THEN (SELECT count(*) FROM runs r WHERE r.host = h.name AND r.state IN ({OCCUPYING_SQL})) ELSE 0 END
         AS unreachable
FROM hosts h ORDER BY h.name
""")  # noqa: S608 - fixed words
PAUSED = text(
    "SELECT key AS scope, paused_at, paused_by, stopped_at FROM scopes WHERE paused_at IS NOT NULL ORDER BY key <> '*', key"
)
HELD_CALLS = text("SELECT count(*) FROM provider_calls WHERE state = 'held'")
WINDOWS = text("""
SELECT asked.scope, asked.unit, asked.period, dates.starts_on, coalesce(s.used, 0) AS used,
       coalesce(s.held, 0) AS held, coalesce(s.settled, 0) AS settled,
       (dates.starts_on + dates.length) AT TIME ZONE 'UTC' AS resets_at
FROM unnest(:scopes, :units, :periods) WITH ORDINALITY AS asked (scope, unit, period, place)
JOIN (VALUES ('day', (now() AT TIME ZONE 'UTC')::date, interval '1 day'),
             ('week', date_trunc('week', now() AT TIME ZONE 'UTC')::date, interval '7 days'),
             ('month', date_trunc('month', now() AT TIME ZONE 'UTC')::date, interval '1 month'))
  AS dates (period, starts_on, length) ON dates.period = asked.period
LEFT JOIN spend_today s ON (s.scope, s.unit, s.period) = (asked.scope, asked.unit, asked.period)
ORDER BY asked.place
""").bindparams(*(bindparam(name, type_=ARRAY(Text)) for name in ("scopes", "units", "periods")))
NOW = text("SELECT clock_timestamp()")


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A worker process that has given a sign of life in the last 15 s."""

    id: str
    host: str
    pid: int
    version: str
    started_at: datetime
    heartbeat_at: datetime


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A machine: how many runs it may hold and holds, and when it last compared rows with containers.

    `unreachable` counts the runs it holds while none of its workers gives a sign of life; they keep slot and money.
    """

    name: str
    capacity: int
    used: int
    workers: int
    engine_id: str | None
    heartbeat_at: datetime
    reconciled_at: datetime | None
    unreachable: int


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """A scope that an operator holds back; `*` is everything. `stopped_at`: since then its runs may call no model."""

    scope: str
    paused_at: datetime
    paused_by: str | None
    stopped_at: datetime | None


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """What one window that today falls in holds, beside its cap. `state` is of what is used now."""

    scope: str
    unit: str
    period: str
    starts_on: date
    used: int
    held: int
    settled: int
    resets_at: datetime
    cap: int
    state: str


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """`states` counts runs that have not ended, `causes` why the waiting ones wait, `ended_today` by UTC day.

    `file_problems` are the operator's edits that are not in force, `breakers` those that are open.
    """

    at: datetime
    states: Mapping[str, int]
    causes: Mapping[str, int]
    ended_today: Mapping[str, int]
    workers: Sequence[WorkerRecord]
    hosts: Sequence[HostRecord]
    paused: Sequence[PauseRecord]
    held_calls: int
    windows: Sequence[WindowRecord]
    file_problems: tuple[str, ...] = ()
    breakers: Sequence[BreakerRecord] = ()

    @property
    def paused_since(self) -> datetime | None:
        """Since when everything is held back."""
        return next((pause.paused_at for pause in self.paused if pause.scope == EVERYTHING), None)

    @property
    def stopped_since(self) -> datetime | None:
        """Since when no run may call a model."""
        return next((pause.stopped_at for pause in self.paused if pause.scope == EVERYTHING), None)

    def workers_on(self, host: str) -> int:
        return sum(worker.host == host for worker in self.workers)


def queue_status(database: Database, caps: Sequence[Cap]) -> QueueStatus:
    """`caps` are the windows to show, with what they may hold. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        states = {str(state): 0 for state in State if state is not State.ENDED}
        ended = {str(outcome): 0 for outcome in Outcome}
        return QueueStatus(
            at=connection.execute(NOW).scalar_one(),
            states=states | _counted(connection, STATES),
            causes=_counted(connection, CAUSES),
            ended_today=ended | _counted(connection, ENDED_TODAY),
            workers=[record(WorkerRecord, row) for row in connection.execute(WORKERS)],
            hosts=[record(HostRecord, row) for row in connection.execute(HOSTS)],
            paused=[record(PauseRecord, row) for row in connection.execute(PAUSED)],
            held_calls=connection.execute(HELD_CALLS).scalar_one(),
            windows=read_windows(connection, caps),
            breakers=read_open(connection),
        )


def _counted(connection: Connection, statement: TextClause) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(statement)}


def read_windows(connection: Connection, caps: Sequence[Cap]) -> Sequence[WindowRecord]:
    """The windows of these caps that today falls in, used or not, in the order of `caps`."""
    asked = {
        "scopes": [cap.scope for cap in caps],
        "units": [str(cap.unit) for cap in caps],
        "periods": [str(cap.period) for cap in caps],
    }
    return [
        WindowRecord(
            scope=row.scope,
            unit=row.unit,
            period=row.period,
            starts_on=row.starts_on,
            used=row.used,
            held=row.held,
            settled=row.settled,
            resets_at=row.resets_at,
            cap=cap.cap,
            state=str(fill_state(WindowFill(cap, row.used))),
        )
        for cap, row in zip(caps, connection.execute(WINDOWS, asked), strict=True)
    ]
