"""Admit one waiting run: every fact, the reservation and the claim in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from pidispatch.domain import words
from pidispatch.domain.limits import (
    PROJECT,
    Cap,
    Exceeds,
    HeldByOthers,
    WindowFill,
    decide,
    fill_state,
    most_used,
)
from pidispatch.domain.run import Claim, Waiting
from pidispatch.ports import Admitted, Answer, Deferred, Facts, NoRoom, Passed, Ready, Refused
from pidispatch.store.admissionsql import (
    ADD_SCOPES,
    BLOCKER,
    CANDIDATES,
    DEFER,
    HELD,
    LOCK_RUN,
    REFUSE,
    SET_BOUND,
    SET_CAPACITY,
    SYNC_LIMITS,
    TAKE,
)
from pidispatch.store.database import Database
from pidispatch.store.ledger import EXPIRE_PAYLOAD, close
from pidispatch.store.oneshots import spend
from pidispatch.store.pipeline import COMMIT, Asked, alone, together
from pidispatch.store.rows import record

LOOK_AGAIN = timedelta(minutes=1)  # what is held may have been used by then, and the run is refused


class PostgresAdmissions:
    """Implements `ports.Admissions`. Lock order: run, scopes by key, host, windows, one-shot."""

    def __init__(self, database: Database, *, host: str, worker: str) -> None:
        self._database = database
        self._host = host
        self._worker = worker

    def next_due(self, passed: Sequence[int]) -> Waiting | None:
        asked = {"host": self._host, "passed": list(passed)}
        found = alone(self._database, CANDIDATES, asked)
        return record(Waiting, found[0]) if found else None

    def admit(self, run: Waiting, ready: Ready) -> Answer:
        """One round trip when nothing stops the run; what does is decided with every lock held, in three more."""
        if run.one_shot is not None:
            return self._admit_once(run, ready)
        took = alone(self._database, *self._take(run, ready, claims=True))[0]
        if took.stop == "unknown":  # locks are taken in their order only, so a scope's row is made before
            self._add_scopes(run, ready)
        elif (answer := _plain(run, took)) is not None:
            return answer
        with self._database.transaction() as connection:
            return self._decide(connection, run, ready)

    def _admit_once(self, run: Waiting, ready: Ready) -> Answer:
        """Few runs spend a one-shot: one more row to lock, so they go the long way at once."""
        self._add_scopes(run, ready)
        with self._database.transaction() as connection:
            return self._decide(connection, run, ready)

    def _add_scopes(self, run: Waiting, ready: Ready) -> None:
        with self._database.transaction() as connection:
            connection.execute(ADD_SCOPES, {"keys": scope_keys(run.scope, ready), "mutex": ready.mutex})

    def defer(self, run: Waiting, *, cause: str, until: datetime, facts: Facts) -> None:
        with self._database.transaction() as connection:
            _defer(connection, run, cause=cause, until=until, facts=facts)

    def refuse(
        self, run: Waiting, *, refusal: Refused, provider: str | None, model: str | None, facts: Facts
    ) -> None:
        with self._database.transaction() as connection:
            locked = connection.execute(LOCK_RUN, {"id": run.run_id, "epoch": run.epoch}).one_or_none()
            if locked is not None:
                close(connection, run.run_id)
                together(connection, *_refusal(run, refusal, provider=provider, model=model, facts=facts))

    def sync(self, bounds: Mapping[str, int], *, capacity: int) -> None:
        """Write down how many runs at a time scopes and this host may have, so that no look-up offers more."""
        with self._database.transaction() as connection:
            connection.execute(SYNC_LIMITS, {"keys": list(bounds), "bounds": list(bounds.values())})
            connection.execute(SET_CAPACITY, {"host": self._host, "capacity": capacity})

    def _take(self, run: Waiting, ready: Ready, *, claims: bool) -> Asked:
        keys = scope_keys(run.scope, ready)
        answer = {"kind": "admitted", "at": run.now.isoformat()}
        claim = {
            "worker": self._worker,
            **asdict(ready.terms),
            "cost_cap": ready.terms.cost_cap_micros,
            "image_id": ready.image_id,
            "engine_id": ready.engine_id,
            "mutex": ready.mutex,
            "owner": ready.owner,
            "project": ready.project,
            "facts": {**ready.facts, "answer": answer},
        }
        asked = {
            "run": run.run_id,
            "epoch": run.epoch,
            "bounds": {key: 1 if key == ready.mutex else ready.concurrent.get(key) for key in keys},
            "host": self._host,
            "capacity": ready.capacity,
            "mutex": ready.mutex,
            "within": list(ready.within),
            "caps": [_asked(cap) for cap in ready.caps],
            "files": [asdict(each) for each in ready.basis],
        }
        return TAKE, {"asked": Jsonb({**asked, "claim": claim} if claims else asked)}

    def _decide(self, connection: Connection, run: Waiting, ready: Ready) -> Answer:
        """Say why the run is stopped. A refusal, or no room, leaves no trace in any window."""
        ((took,), held) = together(connection, self._take(run, ready, claims=False), _held(run, ready))
        answer = _plain(run, took)
        if answer is not None:
            return answer
        facts = {**ready.facts, **took.seen}
        if took.stop == "paused":
            _defer(connection, run, cause=words.PAUSED, ready=ready, facts=facts)
            return Deferred(words.PAUSED)
        if took.stop in {"scope", "nested"}:
            return _busy(connection, run, ready, facts, took)
        # A further attempt of a run that already paid for its place counts in no window.
        fills = (
            []
            if took.paid
            else [_fill(*each) for each in zip(ready.caps, took.used or (), held, strict=False)]
        )
        verdict = decide(fills)
        if isinstance(verdict, HeldByOthers):
            facts["windows"] = [_seen(fill) for fill in fills]
            holder = held[fills.index(verdict.fill)]
            return _held_by_others(connection, run, verdict, holder, ready=ready, facts=facts)
        refusal = None
        if isinstance(verdict, Exceeds):
            refusal = Refused(verdict.reason, verdict.why)
            facts["windows"] = [_seen(fill) for fill in fills]
        elif run.one_shot is not None:
            refusal = _spent(connection, run, facts)
        if refusal is not None:
            chosen = ready.terms
            refused = _refusal(run, refusal, provider=chosen.provider, model=chosen.model, facts=facts)
            together(connection, *refused, (COMMIT, {}))
            return refusal
        ((took,), _) = together(connection, self._take(run, ready, claims=True), (COMMIT, {}))
        return _plain(run, took) or Passed()


def scope_keys(scope: str, ready: Ready) -> list[str]:
    """The scopes whose slots this run takes: its own, its folder's lock, its project's."""
    keys = {scope, ready.mutex or scope}
    if ready.project is not None:
        keys.add(PROJECT + ready.project)
    return sorted(keys)


def _plain(run: Waiting, took: Any) -> Answer | None:
    """The answer where there is nothing to decide or to write."""
    if not took.mine or took.stop == "files":  # read from a content that is not in force any more: look anew
        return Passed()
    if took.stop == "room":
        return NoRoom()
    if took.new_epoch is not None:
        return Admitted(Claim(run.run_id, run.public_id, took.new_attempt, took.new_epoch))
    return None


def _busy(connection: Connection, run: Waiting, ready: Ready, facts: Facts, took: Any) -> Deferred:
    key = took.stopped_by
    if took.stop == "scope":
        bound = 1 if key == ready.mutex else ready.concurrent[key]
        if took.stop_limit != bound:
            connection.execute(SET_BOUND, {"key": key, "bound": bound})
    blocker = connection.execute(BLOCKER, {"key": key}).scalar_one_or_none()
    _defer(connection, run, cause=words.SCOPE, blocked_by=blocker, ready=ready, facts=facts)
    return Deferred(words.SCOPE)


def _held(run: Waiting, ready: Ready) -> Asked:
    keys = {
        "scopes": [cap.scope for cap in ready.caps],
        "units": [str(cap.unit) for cap in ready.caps],
        "periods": [str(cap.period) for cap in ready.caps],
    }
    return HELD, {**keys, "run": run.run_id}


def _fill(cap: Cap, used: int, held: Any) -> WindowFill:
    return WindowFill(cap, used, held.held)


def _held_by_others(
    connection: Connection, run: Waiting, verdict: HeldByOthers, holder: Any, *, ready: Ready, facts: Facts
) -> Deferred:
    until = run.now + LOOK_AGAIN
    _defer(
        connection,
        run,
        cause=words.CAP_HELD,
        until=until,
        blocked_by=holder.most_by,
        waits_for=(holder.window_id, verdict.room_at),
        ready=ready,
        facts=facts,
    )
    return Deferred(words.CAP_HELD, until)


def _spent(connection: Connection, run: Waiting, facts: Facts) -> Refused | None:
    """Spend the run's one-shot, unless somebody did since the run was looked at. The windows are locked by now."""
    by = spend(connection, run.run_id)
    if by is None:
        return None
    gate = {"key": run.one_shot, "spent_by": by.run, "at": by.at.isoformat()}
    facts["gates"] = {**facts.get("gates", {}), "one-shot": gate}
    return Refused(words.ONCE_ALREADY_SPENT, words.BY_ANOTHER_RUN)


def _asked(cap: Cap) -> dict[str, Any]:
    return {
        "scope": cap.scope,
        "unit": cap.unit,
        "period": cap.period,
        "amount": cap.amount,
        "most": most_used(cap),
        "facts": _seen(WindowFill(cap, 0)),
    }


def _seen(fill: WindowFill) -> dict[str, Any]:
    cap = fill.cap
    return {
        "scope": cap.scope,
        "unit": str(cap.unit),
        "period": str(cap.period),
        "used": fill.used,
        "cap": cap.cap,
        "amount": cap.amount,
        "state": str(fill_state(fill)),
        **({"held": fill.held} if fill.held else {}),
    }


def _defer(
    connection: Connection,
    run: Waiting,
    *,
    cause: str,
    facts: Facts,
    until: datetime | None = None,
    blocked_by: int | None = None,
    waits_for: tuple[int | None, int | None] = (None, None),
    ready: Ready | None = None,
) -> None:
    connection.execute(
        DEFER,
        {
            "id": run.run_id,
            "epoch": run.epoch,
            "cause": cause,
            "until": until,
            "blocked_by": blocked_by,
            "window": waits_for[0],
            "room_at": waits_for[1],
            "mutex": None if ready is None else ready.mutex,
            "within": None if ready is None else list(ready.within),
            "project": None if ready is None else ready.project,
            "facts": {**facts, "answer": {"kind": "deferred", "at": run.now.isoformat(), "cause": cause}},
        },
    )


def _refusal(
    run: Waiting, refusal: Refused, *, provider: str | None, model: str | None, facts: Facts
) -> tuple[Asked, Asked]:
    """The statements that end a run as refused."""
    at = run.now.isoformat()
    answer = {"kind": "refused", "at": at, "reason": refusal.reason, "why": refusal.why}
    ended = {
        "id": run.run_id,
        "epoch": run.epoch,
        "reason": refusal.reason,
        "why": refusal.why,
        "provider": provider,
        "model": model,
        "facts": Jsonb({**facts, "answer": answer}),
    }
    return (REFUSE, ended), (EXPIRE_PAYLOAD, {"run": run.run_id})
