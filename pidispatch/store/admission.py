"""Admit one waiting run: every fact, the reservation and the claim in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import Connection

from pidispatch.domain import oneshot
from pidispatch.domain.limits import PROJECT, Cap, Exceeds, WindowFill, decide, fill_state
from pidispatch.domain.run import Claim, Waiting
from pidispatch.ports import Admitted, Answer, Deferred, Facts, NoRoom, Passed, Ready, Refused
from pidispatch.store.admissionsql import (
    ADD_SCOPES,
    BLOCKER,
    CANDIDATES,
    CLAIM,
    COUNT_HOST,
    COUNT_IN,
    DEFER,
    LOCK_EVERYTHING,
    LOCK_HOST,
    LOCK_RUN,
    LOCK_RUN_AND_SCOPES,
    REFUSE,
    SAVE,
    SET_BOUND,
    SET_CAPACITY,
    SYNC_LIMITS,
    UNDO,
)
from pidispatch.store.database import Database
from pidispatch.store.ledger import close, expire_payload
from pidispatch.store.oneshots import Taken, spend
from pidispatch.store.pipeline import COMMIT, ROLLBACK, together


class PostgresAdmissions:
    """Implements `ports.Admissions`. Lock order: run, scopes by key, host, windows, one-shot."""

    def __init__(self, database: Database, *, host: str, worker: str) -> None:
        self._database = database
        self._host = host
        self._worker = worker

    def next_due(self, passed: Sequence[int]) -> Waiting | None:
        asked = {"host": self._host, "passed": list(passed)}
        with self._database.transaction(begun=False) as connection:
            found, _ = together(connection, (CANDIDATES, asked), (ROLLBACK, {}))
        return Waiting(*found[0]) if found else None

    def admit(self, run: Waiting, ready: Ready) -> Answer:
        """Three round trips: what may hold the run back; the host and its windows; the claim and the commit."""
        answer = self._admit(run, ready)
        if answer is None:
            with self._database.transaction() as connection:
                connection.execute(ADD_SCOPES, {"keys": scope_keys(run.scope, ready), "mutex": ready.mutex})
            answer = self._admit(run, ready)
        return answer or Passed()

    def _admit(self, run: Waiting, ready: Ready) -> Answer | None:
        """None when a scope has no row yet: it is made before, as locks are only ever taken in their order."""
        keys = scope_keys(run.scope, ready)
        with self._database.transaction(begun=False) as connection:
            asked = {"id": run.run_id, "epoch": run.epoch, "keys": keys}
            everything, scopes = together(connection, (LOCK_EVERYTHING, {}), (LOCK_RUN_AND_SCOPES, asked))
            if not scopes:
                return Passed()
            if len(scopes) < len(keys):
                return None
            seen = dict(ready.facts)
            held_back = _paused(connection, run, ready, seen, [*everything, *scopes])
            held_back = held_back or _busy(connection, run, ready, seen, scopes)
            if held_back is not None:
                return held_back
            return self._take_place(connection, run, ready, seen, paid=scopes[0].paid)

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
                _refuse(connection, run, refusal, provider=provider, model=model, facts=facts)

    def sync(self, bounds: Mapping[str, int], *, capacity: int) -> None:
        """Write down how many runs at a time scopes and this host may have, so that no look-up offers more."""
        with self._database.transaction() as connection:
            connection.execute(SYNC_LIMITS, {"keys": list(bounds), "bounds": list(bounds.values())})
            connection.execute(SET_CAPACITY, {"host": self._host, "capacity": capacity})

    def _take_place(
        self, connection: Connection, run: Waiting, ready: Ready, seen: Facts, *, paid: bool
    ) -> Answer:
        """A slot of the host, then the windows. A refusal, or no room, leaves no trace in any of them."""
        host = {"host": self._host}
        caps = () if paid else ready.caps  # a further attempt of a run that already paid for its place
        counting = {**_asked(caps), **host, "capacity": ready.capacity}
        _, counted, _, windows = together(
            connection, (LOCK_HOST, host), (COUNT_HOST, host), (SAVE, {}), (COUNT_IN, counting)
        )
        taken = counted[0].count
        seen["room"] = {"host": self._host, "free": ready.capacity - taken, "capacity": ready.capacity}
        if taken >= ready.capacity:
            connection.execute(
                UNDO
            )  # a run may have ended between the two counts: then the windows are counted
            return NoRoom()
        fills = _fills(caps, windows)
        facts = {**seen, "windows": "kept" if paid else [_seen(fill) for fill in fills]}
        verdict = decide(fills)
        if isinstance(verdict, Exceeds):
            connection.execute(UNDO)
            refusal = Refused(verdict.reason, verdict.why)
            _refuse(connection, run, refusal, provider=ready.provider, model=ready.model, facts=facts)
            return refusal
        taken_by = None if run.one_shot is None else spend(connection, run.run_id)
        if taken_by is not None:
            connection.execute(UNDO)
            return _refuse_spent(connection, run, ready, taken_by, facts)
        held = {"windows": [row.id for row in windows], "amounts": [fill.cap.amount for fill in fills]}
        return Admitted(self._claim(connection, run, ready, facts, **held))

    def _claim(
        self,
        connection: Connection,
        run: Waiting,
        ready: Ready,
        facts: Facts,
        *,
        windows: Sequence[int],
        amounts: Sequence[int],
    ) -> Claim:
        """The commit goes with it: from here on nothing can be refused, and the hot windows are locked till then."""
        answer = {"kind": "admitted", "at": run.now.isoformat()}
        claim = (
            CLAIM,
            {
                "id": run.run_id,
                "epoch": run.epoch,
                "host": self._host,
                "worker": self._worker,
                "provider": ready.provider,
                "model": ready.model,
                "image": ready.image,
                "image_id": ready.image_id,
                "engine_id": ready.engine_id,
                "max_turns": ready.max_turns,
                "max_tokens": ready.max_tokens,
                "cost_cap": ready.cost_cap_micros,
                "mutex": ready.mutex,
                "project": ready.project,
                "windows": list(windows),
                "amounts": list(amounts),
                "keys": scope_keys(run.scope, ready),
                "facts": Jsonb({**facts, "answer": answer}),
            },
        )
        ((row,), _) = together(connection, claim, (COMMIT, {}))
        return Claim(run.run_id, run.public_id, row.attempt, row.epoch)


def scope_keys(scope: str, ready: Ready) -> list[str]:
    """The scopes whose slots this run takes: its own, its folder's lock, its project's."""
    keys = {scope, ready.mutex or scope}
    if ready.project is not None:
        keys.add(PROJECT + ready.project)
    return sorted(keys)


def _paused(
    connection: Connection, run: Waiting, ready: Ready, seen: Facts, scopes: Sequence[Any]
) -> Deferred | None:
    """`FOR SHARE` of everything's row: nothing is admitted after a pause has returned."""
    held = [scope.key for scope in scopes if scope.paused_at is not None]
    seen["pause"] = held
    if not held:
        return None
    _defer(connection, run, cause="paused", ready=ready, facts=seen)
    return Deferred("paused")


def _busy(
    connection: Connection, run: Waiting, ready: Ready, seen: Facts, scopes: Sequence[Any]
) -> Deferred | None:
    bounds = {
        scope.key: 1 if scope.key == ready.mutex else ready.concurrent.get(scope.key) for scope in scopes
    }
    seen["slots"] = [
        {"scope": scope.key, "occupied": scope.occupied, "limit": bounds[scope.key]} for scope in scopes
    ]
    for scope in scopes:
        bound = bounds[scope.key]
        if bound is not None and scope.occupied >= bound:
            if scope.limit != bound:
                connection.execute(SET_BOUND, {"key": scope.key, "bound": bound})
            blocker = connection.execute(BLOCKER, {"key": scope.key}).scalar_one_or_none()
            _defer(connection, run, cause="scope", blocked_by=blocker, ready=ready, facts=seen)
            return Deferred("scope")
    return None


def _asked(caps: Sequence[Cap]) -> dict[str, Any]:
    return {
        "scopes": [cap.scope for cap in caps],
        "units": [str(cap.unit) for cap in caps],
        "periods": [str(cap.period) for cap in caps],
        "amounts": [cap.amount for cap in caps],
    }


def _fills(caps: Sequence[Cap], windows: Sequence[Any]) -> list[WindowFill]:
    """In the order of the rows."""
    by_window = {(cap.scope, cap.unit, cap.period): cap for cap in caps}
    return [WindowFill(by_window[row.scope, row.unit, row.period], row.used) for row in windows]


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
    }


def _defer(
    connection: Connection,
    run: Waiting,
    *,
    cause: str,
    facts: Facts,
    until: datetime | None = None,
    blocked_by: int | None = None,
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
            "mutex": None if ready is None else ready.mutex,
            "project": None if ready is None else ready.project,
            "facts": {**facts, "answer": {"kind": "deferred", "at": run.now.isoformat(), "cause": cause}},
        },
    )


def _refuse_spent(connection: Connection, run: Waiting, ready: Ready, by: Taken, facts: Facts) -> Refused:
    """Somebody spent it since the run was looked at."""
    refusal = Refused(oneshot.SPENT, oneshot.BY_ANOTHER_RUN)
    facts["gates"] = {
        **facts.get("gates", {}),
        "one-shot": {"key": run.one_shot, "spent_by": by.run, "at": by.at.isoformat()},
    }
    _refuse(connection, run, refusal, provider=ready.provider, model=ready.model, facts=facts)
    return refusal


def _refuse(
    connection: Connection,
    run: Waiting,
    refusal: Refused,
    *,
    provider: str | None,
    model: str | None,
    facts: Facts,
) -> None:
    at = run.now.isoformat()
    answer = {"kind": "refused", "at": at, "reason": refusal.reason, "why": refusal.why}
    connection.execute(
        REFUSE,
        {
            "id": run.run_id,
            "epoch": run.epoch,
            "reason": refusal.reason,
            "why": refusal.why,
            "provider": provider,
            "model": model,
            "facts": {**facts, "answer": answer},
        },
    )
    expire_payload(connection, run.run_id)
