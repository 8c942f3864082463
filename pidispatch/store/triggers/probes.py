"""Hold back what would start of a trigger whose breaker is open, but for one probe."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain.runs.run import NewRun
from pidispatch.domain.triggers.breaker import CLOSED, Breaker, Decision, due
from pidispatch.store.triggers.breakercount import state_of

# In the order of the ids, as everywhere; and before any scope, since who makes runs may have to make their scopes.
LOCK = text("""
SELECT trigger_id, outcome, reason, failures, opened_at, backoff_seconds, probe_at, probe FROM breakers
WHERE trigger_id = ANY(:ids) AND opened_at IS NOT NULL ORDER BY trigger_id FOR UPDATE
""").bindparams(bindparam("ids", type_=ARRAY(Text)))
TRIES = text("UPDATE breakers SET probe = :probe WHERE trigger_id = :id")


class Probes:
    """What may start in this transaction. Made before any scope is written, `write` comes after the runs were."""

    def __init__(self, connection: Connection, trigger_ids: Collection[str], now: datetime) -> None:
        self._connection = connection
        self._now = now
        self._states: dict[str, Breaker] = {}
        self._tries: dict[str, str] = {}
        if trigger_ids:
            rows = connection.execute(LOCK, {"ids": sorted(trigger_ids)})
            self._states = {row.trigger_id: state_of(row) for row in rows}

    def lets(self, run: NewRun) -> bool:
        """False: the run is not to be made, `breaker-open`. The one that is let through while it is open is its probe."""
        if run.trigger_id is None:
            return True
        before = self._states.get(run.trigger_id, CLOSED)
        after, decision = due(before, run.public_id, self._now)
        if decision is Decision.PROBE:
            self._states[run.trigger_id] = after
            self._tries[run.trigger_id] = run.public_id
        return decision is not Decision.SKIP

    def write(self) -> None:
        """Note the probes; their runs exist by now."""
        if self._tries:
            tries = [{"id": name, "probe": run} for name, run in sorted(self._tries.items())]
            self._connection.execute(TRIES, tries)
