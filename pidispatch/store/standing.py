"""Read what is true of the whole queue now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import Connection, TextClause, text

from pidispatch.domain.limits import EVERYTHING, RunCap, window_state
from pidispatch.domain.run import Outcome, State
from pidispatch.store.database import Database
from pidispatch.store.models import OCCUPYING_SQL

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
       h.engine_id, h.heartbeat_at, h.reconciled_at
FROM hosts h ORDER BY h.name
""")  # noqa: S608 - fixed words
PAUSED = text(
    "SELECT key, paused_at, paused_by FROM scopes WHERE paused_at IS NOT NULL ORDER BY key <> '*', key"
)
HELD_CALLS = text("SELECT count(*) FROM provider_calls WHERE state = 'held'")
WINDOWS = text("""
SELECT asked.period, asked.starts_on, coalesce(s.used, 0) AS used, coalesce(s.held, 0) AS held,
       coalesce(s.settled, 0) AS settled
FROM (VALUES ('day', (now() AT TIME ZONE 'UTC')::date),
             ('week', date_trunc('week', now() AT TIME ZONE 'UTC')::date),
             ('month', date_trunc('month', now() AT TIME ZONE 'UTC')::date)) AS asked (period, starts_on)
LEFT JOIN spend_today s ON s.period = asked.period AND s.scope = :scope AND s.unit = 'runs'
""")
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
    """A machine: how many runs it may hold and holds, and when it last compared rows with containers."""

    name: str
    capacity: int
    used: int
    workers: int
    engine_id: str | None
    heartbeat_at: datetime
    reconciled_at: datetime | None


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """A scope that an operator holds back; `*` is everything."""

    scope: str
    paused_at: datetime
    paused_by: str | None


@dataclass(frozen=True, slots=True)
class WindowRecord:
    """Runs counted in one window that today falls in, beside its cap. `state` is of what is used now."""

    scope: str
    unit: str
    period: str
    starts_on: date
    used: int
    held: int
    settled: int
    cap: int
    state: str


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """`states` counts runs that have not ended, `causes` why the waiting ones wait, `ended_today` by UTC day."""

    at: datetime
    states: Mapping[str, int]
    causes: Mapping[str, int]
    ended_today: Mapping[str, int]
    workers: Sequence[WorkerRecord]
    hosts: Sequence[HostRecord]
    paused: Sequence[PauseRecord]
    held_calls: int
    windows: Sequence[WindowRecord]

    @property
    def paused_since(self) -> datetime | None:
        """Since when everything is held back."""
        return next((pause.paused_at for pause in self.paused if pause.scope == EVERYTHING), None)

    def workers_on(self, host: str) -> int:
        return sum(worker.host == host for worker in self.workers)


def queue_status(database: Database, caps: Sequence[RunCap]) -> QueueStatus:
    """`caps` are the windows to show, with what they may hold. Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        states = {str(state): 0 for state in State if state is not State.ENDED}
        ended = {str(outcome): 0 for outcome in Outcome}
        return QueueStatus(
            at=connection.execute(NOW).scalar_one(),
            states=states | _counted(connection, STATES),
            causes=_counted(connection, CAUSES),
            ended_today=ended | _counted(connection, ENDED_TODAY),
            workers=[WorkerRecord(*row) for row in connection.execute(WORKERS)],
            hosts=[HostRecord(*row) for row in connection.execute(HOSTS)],
            paused=[PauseRecord(*row) for row in connection.execute(PAUSED)],
            held_calls=connection.execute(HELD_CALLS).scalar_one(),
            windows=_windows(connection, caps),
        )


def _counted(connection: Connection, statement: TextClause) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(statement)}


def _windows(connection: Connection, caps: Sequence[RunCap]) -> Sequence[WindowRecord]:
    found = {row.period: row for row in connection.execute(WINDOWS, {"scope": EVERYTHING})}
    return [
        WindowRecord(
            scope=cap.scope,
            unit="runs",
            period=str(cap.period),
            starts_on=found[cap.period].starts_on,
            used=found[cap.period].used,
            held=found[cap.period].held,
            settled=found[cap.period].settled,
            cap=cap.cap,
            state=str(window_state(found[cap.period].used, cap.cap, cap.soft_pct)),
        )
        for cap in caps
        if cap.scope == EVERYTHING
    ]
