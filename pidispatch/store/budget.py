"""Read what every window of spend holds, and for which runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import text

from pidispatch.domain.limits import Cap
from pidispatch.store.database import Database
from pidispatch.store.standing import NOW, WindowRecord, read_windows

MOST_NAMED = 20

HOLDERS = text("""
SELECT w.scope, w.unit, w.period, w.starts_on, count(*) AS runs,
       (array_agg(r.public_id ORDER BY r.admitted_at, r.id))[1 : :most] AS named
FROM reservations v JOIN spend_windows w ON w.id = v.window_id JOIN runs r ON r.id = v.run_id
WHERE v.state = 'held' GROUP BY w.id
""")


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """One window that today falls in. `name` is what a person calls its scope; `held_by` names at most 20 of the
    `holders` runs, the earliest admitted first. Money is in micro-dollars; `state` is of what is used now.
    """

    scope: str
    name: str
    unit: str
    period: str
    starts_on: date
    resets_at: datetime
    used: int
    cap: int
    held: int
    settled: int
    state: str
    holders: int
    held_by: Sequence[str]


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """Every window with a cap, the global ones first, at one instant of Postgres's clock."""

    at: datetime
    windows: Sequence[BudgetWindow]


def read_budget(database: Database, caps: Sequence[Cap], names: Mapping[str, str]) -> BudgetRecord:
    """Raises DatabaseUnavailable."""
    with database.transaction() as connection:
        # One snapshot, or an admission in between would be held by nobody.
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        windows = read_windows(connection, caps)
        holders = {
            (row.scope, row.unit, row.period, row.starts_on): (row.runs, row.named)
            for row in connection.execute(HOLDERS, {"most": MOST_NAMED})
        }
        at: datetime = connection.execute(NOW).scalar_one()
    return BudgetRecord(at, [_joined(window, names, holders) for window in windows])


def _joined(
    window: WindowRecord,
    names: Mapping[str, str],
    holders: Mapping[tuple[str, str, str, date], tuple[int, Sequence[str]]],
) -> BudgetWindow:
    runs, named = holders.get((window.scope, window.unit, window.period, window.starts_on), (0, ()))
    return BudgetWindow(
        scope=window.scope,
        name=names.get(window.scope, window.scope),
        unit=window.unit,
        period=window.period,
        starts_on=window.starts_on,
        resets_at=window.resets_at,
        used=window.used,
        cap=window.cap,
        held=window.held,
        settled=window.settled,
        state=window.state,
        holders=runs,
        held_by=list(named),
    )
