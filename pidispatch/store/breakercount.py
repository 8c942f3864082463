"""Count the ended runs of triggers into their breakers: each one once, whoever dies."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, Text, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from pidispatch.domain import words
from pidispatch.domain.breaker import CLOSED, Breaker, Decision, Ended, Rules, Step, decide
from pidispatch.domain.run import Outcome, Result
from pidispatch.ports import BreakerChange, Counted
from pidispatch.store.audit import audit
from pidispatch.store.breakers import TURN
from pidispatch.store.database import Database

MOST = 500  # endings counted in one transaction

# What an ending has written and nobody has counted. The rows are deleted in the transaction that counts them.
ANY_LEFT = text("SELECT EXISTS (SELECT 1 FROM uncounted_endings)")
TRY_TURN = text(f"SELECT pg_try_advisory_xact_lock({TURN})")
ENDINGS = text("""
SELECT e.run_id, e.trigger_id, r.public_id, r.outcome, r.result, r.reason, r.replica, clock_timestamp() AS now
FROM uncounted_endings e JOIN runs r ON r.id = e.run_id ORDER BY r.ended_at, e.run_id LIMIT :most
""")
LOCK = text("""
SELECT trigger_id, outcome, reason, failures, opened_at, backoff_seconds, probe_at, probe FROM breakers
WHERE trigger_id = ANY(:ids) ORDER BY trigger_id FOR UPDATE
""").bindparams(bindparam("ids", type_=ARRAY(Text)))
PUT = text("""
INSERT INTO breakers (trigger_id, outcome, reason, failures, opened_at, backoff_seconds, probe_at, probe)
VALUES (:trigger_id, :outcome, :reason, :failures, :opened_at, :backoff_seconds, :probe_at, :probe)
ON CONFLICT (trigger_id) DO UPDATE SET outcome = excluded.outcome, reason = excluded.reason,
  failures = excluded.failures, opened_at = excluded.opened_at, backoff_seconds = excluded.backoff_seconds,
  probe_at = excluded.probe_at, probe = excluded.probe, changed_at = clock_timestamp()
""")
FORGET = text("DELETE FROM breakers WHERE trigger_id = ANY(:ids)").bindparams(
    bindparam("ids", type_=ARRAY(Text))
)
FORGET_COUNTED = text("DELETE FROM uncounted_endings WHERE run_id = ANY(:runs)").bindparams(
    bindparam("runs", type_=ARRAY(BigInteger))
)

# Whether a breaker holds a waiting run `r` back, as a word: an ending that may change the answer is counted first. Not
# held back are a probe, a run that was begun before, and what a person or another run asked for.
HOLDS_BACK = f"""
CASE WHEN r.trigger_id IS NULL OR r.attempt > 0 OR r.requeue_of IS NOT NULL OR r.continues IS NOT NULL OR starts_with(r.public_id, 'manual:')
       OR r.trigger_type IN ('cli', 'api', 'chain') THEN NULL
     WHEN EXISTS (SELECT 1 FROM uncounted_endings e WHERE e.trigger_id = r.trigger_id) THEN '{words.BREAKER_COUNTING}'
     WHEN EXISTS (SELECT 1 FROM breakers b WHERE b.trigger_id = r.trigger_id AND b.opened_at IS NOT NULL
                    AND b.probe IS DISTINCT FROM r.public_id) THEN '{words.BREAKER_OPEN}' END
"""  # noqa: S608 - fixed words
OF_RUN = text(f"SELECT {HOLDS_BACK} FROM runs r WHERE r.id = :run")  # noqa: S608 - fixed words


class PostgresBreakers:
    """Implements `ports.Breakers`. Locks nothing but breakers, by id, and takes its turn before."""

    def __init__(self, database: Database, *, rules: Rules, actor: str) -> None:
        self._database = database
        self._rules = rules
        self._actor = actor

    def count(self) -> Counted:
        with self._database.transaction() as connection:
            if not connection.execute(ANY_LEFT).scalar_one() or not connection.execute(TRY_TURN).scalar_one():
                return Counted()
            endings = connection.execute(ENDINGS, {"most": MOST}).all()
            return Counted(len(endings), self._count(connection, endings)) if endings else Counted()

    def held_back(self, run_id: int) -> str | None:
        with self._database.transaction() as connection:
            word: str | None = connection.execute(OF_RUN, {"run": run_id}).scalar_one()
            return word

    def _count(self, connection: Connection, endings: Sequence[Row[Any]]) -> list[BreakerChange]:
        states = _locked(connection, sorted({row.trigger_id for row in endings}))
        changes: list[BreakerChange] = []
        for row in endings:
            before = states.get(row.trigger_id, CLOSED)
            idle = row.result == Result.NO_OP
            ended = Ended(row.public_id, Outcome(row.outcome), row.reason, row.replica, nothing_done=idle)
            after, decision = decide(before, ended, row.now, self._rules)
            states[row.trigger_id] = after
            if decision is not Decision.COUNTED:
                changes.append(_change(row, decision, after))
        for change in changes:
            if change.opened:
                told: dict[str, object] = {
                    "reason": change.reason,
                    "failures": change.failures,
                    "run": change.run,
                }
                audit(connection, words.BREAKER_OPEN, change.trigger_id, self._actor, told)
        _write(connection, states)
        connection.execute(FORGET_COUNTED, {"runs": [row.run_id for row in endings]})
        return changes


def state_of(row: Row[Any]) -> Breaker:
    """A row of `breakers` as the value that decisions are made of."""
    return Breaker(
        step=Step(Outcome(row.outcome), row.reason),
        failures=row.failures,
        opened_at=row.opened_at,
        backoff=timedelta(seconds=row.backoff_seconds),
        probe_at=row.probe_at,
        probe=row.probe,
    )


def _locked(connection: Connection, ids: Sequence[str]) -> dict[str, Breaker]:
    return {row.trigger_id: state_of(row) for row in connection.execute(LOCK, {"ids": list(ids)})}


def _write(connection: Connection, states: Mapping[str, Breaker]) -> None:
    kept = [_values(name, state) for name, state in sorted(states.items()) if state.step is not None]
    closed = [name for name, state in states.items() if state.step is None]
    if kept:
        connection.execute(PUT, kept)
    if closed:
        connection.execute(FORGET, {"ids": closed})


def _values(name: str, state: Breaker) -> dict[str, Any]:
    assert state.step is not None  # noqa: S101 - only such states have a row
    return {
        "trigger_id": name,
        "outcome": str(state.step.outcome),
        "reason": state.step.reason,
        "failures": state.failures,
        "opened_at": state.opened_at,
        "backoff_seconds": round(state.backoff.total_seconds()),
        "probe_at": state.probe_at,
        "probe": state.probe,
    }


def _change(row: Row[Any], decision: Decision, state: Breaker) -> BreakerChange:
    probe_at: datetime | None = state.probe_at
    return BreakerChange(
        trigger_id=row.trigger_id,
        opened=decision is Decision.OPENED,
        run=row.public_id,
        reason=row.reason,
        failures=state.failures,
        probe_at=probe_at,
    )
