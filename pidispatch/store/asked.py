"""Read who asked for a run, and what each was answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from pidispatch.store.rows import record

MOST = 100  # the oldest: the first of them is the one that started it

DELIVERIES = text("""
SELECT source, delivery_id, event, action, decision, reason, repeats, received_at,
       count(*) OVER () AS of
FROM deliveries WHERE run_id = :run ORDER BY id LIMIT :most
""")


@dataclass(frozen=True, slots=True)
class DeliveryRecord:
    """One who asked: `source` is a forge, poll, cron, cli or api; `decision` what became of it, as `Became`.

    `repeats`: how often the same was told again. `of`: how many asked for the run in all.
    """

    source: str
    delivery_id: str
    event: str | None
    action: str | None
    decision: str
    reason: str | None
    repeats: int
    received_at: datetime
    of: int


def deliveries_of(connection: Connection, run_id: int) -> Sequence[DeliveryRecord]:
    """At most 100, the oldest first; none for a run that nobody's event asked for, such as a child of a chain."""
    return [
        record(DeliveryRecord, row) for row in connection.execute(DELIVERIES, {"run": run_id, "most": MOST})
    ]
