"""Admit one waiting run: every fact, the reservation and the claim in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from pidispatch.domain.limits import EVERYTHING, PROJECT, Cap, Exceeds, WindowFill, decide, fill_state
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
    LOCK_SCOPES,
    REFUSE,
    SET_BOUND,
    SET_CAPACITY,
    SYNC_LIMITS,
)
from pidispatch.store.database import Database
from pidispatch.store.ledger import close, expire_payload


class PostgresAdmissions:
    """Implements `ports.Admissions`. Lock order: run, scopes by key, host, windows."""

    def __init__(self, database: Database, *, host: str, worker: str) -> None:
        self._database = database
        self._host = host
        self._worker = worker

    def next_due(self, passed: Sequence[int]) -> Waiting | None:
        asked = {"host": self._host, "passed": list(passed)}
        with self._database.transaction() as connection:
            row = connection.execute(CANDIDATES, asked).one_or_none()
        return None if row is None else Waiting(*row)

    def admit(self, run: Waiting, ready: Ready) -> Answer:
        with self._database.transaction() as connection:
            locked = connection.execute(LOCK_RUN, {"id": run.run_id, "epoch": run.epoch}).one_or_none()
            if locked is None:
                return Passed()
            seen = dict(ready.facts)
            held_back = self._held_back(connection, run, ready, seen)
            if held_back is not None:
                return held_back
            connection.execute(LOCK_HOST, {"host": self._host})
            taken = connection.execute(COUNT_HOST, {"host": self._host}).scalar_one()
            seen["room"] = {"host": self._host, "free": ready.capacity - taken, "capacity": ready.capacity}
            if taken >= ready.capacity:
                return NoRoom()
            if locked.reserved:  # a further attempt of a run that already paid for its place
                return Admitted(self._claim(connection, run, ready, {**seen, "windows": "kept"}))
            return self._take_windows(connection, run, ready, seen)

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

    def _held_back(self, connection: Connection, run: Waiting, ready: Ready, seen: Facts) -> Deferred | None:
        """A pause or a busy scope. `FOR SHARE`: nothing is admitted after a pause has returned."""
        keys = scope_keys(run.scope, ready)
        connection.execute(ADD_SCOPES, {"keys": keys, "mutex": ready.mutex})
        paused = connection.execute(LOCK_EVERYTHING).scalar_one()
        scopes = connection.execute(LOCK_SCOPES, {"keys": keys}).all()
        held = [EVERYTHING] if paused is not None else []
        held += [scope.key for scope in scopes if scope.paused_at is not None]
        seen["pause"] = held
        if held:
            _defer(connection, run, cause="paused", ready=ready, facts=seen)
            return Deferred("paused")
        bounds = {key: 1 if key == ready.mutex else ready.concurrent.get(key) for key in keys}
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

    def _take_windows(self, connection: Connection, run: Waiting, ready: Ready, seen: Facts) -> Answer:
        """Narrowest window first, the global ones last; a refusal leaves no trace in any of them."""
        savepoint = connection.begin_nested()
        fills, ids = _count_in(connection, ready.caps)
        facts = {**seen, "windows": [_seen(fill) for fill in fills]}
        verdict = decide(fills)
        if isinstance(verdict, Exceeds):
            savepoint.rollback()
            refusal = Refused(verdict.reason, verdict.why)
            _refuse(connection, run, refusal, provider=ready.provider, model=ready.model, facts=facts)
            return refusal
        held = {"windows": ids, "amounts": [fill.cap.amount for fill in fills]}
        return Admitted(self._claim(connection, run, ready, facts, **held))

    def _claim(
        self,
        connection: Connection,
        run: Waiting,
        ready: Ready,
        facts: Facts,
        *,
        windows: Sequence[int] = (),
        amounts: Sequence[int] = (),
    ) -> Claim:
        row = connection.execute(
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
                "facts": {**facts, "answer": {"kind": "admitted", "at": run.now.isoformat()}},
            },
        ).one()
        return Claim(run.run_id, run.public_id, row.attempt, row.epoch)


def scope_keys(scope: str, ready: Ready) -> list[str]:
    """The scopes whose slots this run takes: its own, its folder's lock, its project's."""
    keys = {scope, ready.mutex or scope}
    if ready.project is not None:
        keys.add(PROJECT + ready.project)
    return sorted(keys)


def _count_in(connection: Connection, caps: Sequence[Cap]) -> tuple[list[WindowFill], list[int]]:
    if not caps:
        return [], []
    by_window = {(cap.scope, cap.unit, cap.period): cap for cap in caps}
    rows = connection.execute(
        COUNT_IN,
        {
            "scopes": [cap.scope for cap in caps],
            "units": [str(cap.unit) for cap in caps],
            "periods": [str(cap.period) for cap in caps],
            "amounts": [cap.amount for cap in caps],
        },
    ).all()
    return [WindowFill(by_window[row.scope, row.unit, row.period], row.used) for row in rows], [
        row.id for row in rows
    ]


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
