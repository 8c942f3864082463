"""Read what every window of spend holds, and for which runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import text

from pidispatch.domain.limits.windows import Cap
from pidispatch.store.database import Database
from pidispatch.store.read.queue import NOW, WindowRecord, read_windows

MOST_NAMED = 20

_Key = tuple[str, str, str, date]

HOLDERS = text("""
SELECT w.scope, w.unit, w.period, w.starts_on, count(*) AS runs,
       (array_agg(r.public_id ORDER BY r.admitted_at, r.id))[1 : :most] AS named
FROM reservations v JOIN spend_windows w ON w.id = v.window_id JOIN runs r ON r.id = v.run_id
WHERE v.state = 'held' GROUP BY w.id
""")
# What ended runs' calls count that nobody measured. Today falls in no window that began more than a month ago.
ASSUMED = text("""
SELECT w.scope, w.unit, w.period, w.starts_on,
       sum(CASE w.unit WHEN 'micros' THEN c.counted_micros ELSE c.counted_tokens END)::bigint AS assumed
FROM spend_windows w JOIN reservations v ON v.window_id = w.id
JOIN provider_calls c ON c.run_id = v.run_id AND c.state = 'assumed'
WHERE v.state = 'settled' AND w.unit <> 'runs' AND w.starts_on > current_date - 40
  AND (w.scope NOT LIKE 'model:%' OR w.unit <> 'micros' OR 'model:' || lower(c.provider || '/' || c.model) = lower(w.scope))
GROUP BY w.id
""")


@dataclass(frozen=True, slots=True)
class BudgetWindow:
    """One window that today falls in. `name` is what a person calls its scope; `held_by` names at most 20 of the
    `holders` runs, the earliest admitted first. Money is in micro-dollars; `state` is of what is used now. `assumed` is
    the part of `settled` that calls came to at most, which ended without their usage.
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
    assumed: int
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
        assumed = {
            (row.scope, row.unit, row.period, row.starts_on): row.assumed
            for row in connection.execute(ASSUMED)
        }
        at: datetime = connection.execute(NOW).scalar_one()
    return BudgetRecord(at, [_joined(window, names, holders, assumed) for window in windows])


def _joined(
    window: WindowRecord,
    names: Mapping[str, str],
    holders: Mapping[_Key, tuple[int, Sequence[str]]],
    assumed: Mapping[_Key, int | None],
) -> BudgetWindow:
    key = (window.scope, window.unit, window.period, window.starts_on)
    runs, named = holders.get(key, (0, ()))
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
        assumed=assumed.get(key) or 0,
        state=window.state,
        holders=runs,
        held_by=list(named),
    )
