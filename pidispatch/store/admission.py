"""Admit one waiting run: every fact, the reservation and the claim in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, DateTime, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql import bindparam
from sqlalchemy.types import BigInteger, Integer, Text

from pidispatch.domain.limits import EVERYTHING, PROJECT, Cap, Exceeds, WindowFill, decide, fill_state
from pidispatch.domain.run import Claim, Waiting
from pidispatch.ports import Admitted, Answer, Deferred, Facts, NoRoom, Passed, Ready, Refused
from pidispatch.store.database import Database
from pidispatch.store.ledger import close, expire_payload
from pidispatch.store.models import OCCUPYING_SQL
from pidispatch.store.startable import STARTABLE

# Priority with ageing (600 s of waiting are one step), scopes in turn, then age. The payload is read of the chosen alone.
CANDIDATES = text(f"""
WITH chosen AS MATERIALIZED (
  SELECT r.id {STARTABLE} AND NOT (r.id = ANY(:passed))
  ORDER BY floor((r.priority * 600 + extract(epoch FROM now() - r.queued_at)) / 600) DESC,
           s.last_started_at NULLS FIRST, r.queued_at, r.id
  LIMIT 1)
SELECT r.id, r.public_id, r.epoch, p.folder, r.scope, r.provider, r.model, r.image, r.max_turns, r.max_tokens,
       r.flow, r.attempt, coalesce(p.folder_given, p.folder), now()
FROM chosen JOIN runs r ON r.id = chosen.id JOIN run_payloads p ON p.run_id = r.id
""").bindparams(bindparam("passed", type_=ARRAY(BigInteger)))  # noqa: S608 - fixed words

LOCK_RUN = text("""
SELECT r.id, EXISTS (SELECT 1 FROM reservations v WHERE v.run_id = r.id AND v.state = 'held') AS reserved
FROM runs r WHERE r.id = :id AND r.epoch = :epoch AND r.state IN ('queued', 'deferred') FOR NO KEY UPDATE SKIP LOCKED
""")
ADD_SCOPES = text("""
INSERT INTO scopes (key, "limit") SELECT key, CASE WHEN key = :mutex THEN 1 END FROM unnest(:keys) AS asked (key)
ORDER BY key ON CONFLICT (key) DO NOTHING
""").bindparams(bindparam("keys", type_=ARRAY(Text)), bindparam("mutex", type_=Text))
LOCK_EVERYTHING = text("SELECT paused_at FROM scopes WHERE key = '*' FOR SHARE")
LOCK_SCOPES = text("""
SELECT key, occupied, "limit", paused_at FROM scopes WHERE key = ANY(:keys) ORDER BY key FOR NO KEY UPDATE
""").bindparams(bindparam("keys", type_=ARRAY(Text)))
BLOCKER = text(f"""
SELECT id FROM runs WHERE :key IN (mutex, scope, 'project:' || project) AND state IN ({OCCUPYING_SQL})
ORDER BY admitted_at LIMIT 1
""")  # noqa: S608 - fixed words
LOCK_HOST = text("SELECT 1 FROM hosts WHERE name = :host FOR NO KEY UPDATE")
# A statement of its own: one that had to wait for the lock would count what was true before the wait.
COUNT_HOST = text(f"""
SELECT count(*) FROM runs WHERE host = :host AND state IN ({OCCUPYING_SQL})
""")  # noqa: S608 - fixed words

# One round trip counts the run in every window and says what each holds now; a refusal rolls back to the savepoint.
COUNT_IN = text("""
INSERT INTO spend_windows (scope, unit, period, starts_on, used)
SELECT scope, unit, period,
       CASE period WHEN 'day' THEN (now() AT TIME ZONE 'UTC')::date
                   WHEN 'week' THEN date_trunc('week', now() AT TIME ZONE 'UTC')::date
                   ELSE date_trunc('month', now() AT TIME ZONE 'UTC')::date END, amount
FROM unnest(:scopes, :units, :periods, :amounts) AS asked (scope, unit, period, amount)
ON CONFLICT (scope, unit, period, starts_on) DO UPDATE SET used = spend_windows.used + excluded.used
RETURNING id, scope, unit, period, used
""").bindparams(
    bindparam("scopes", type_=ARRAY(Text)),
    bindparam("units", type_=ARRAY(Text)),
    bindparam("periods", type_=ARRAY(Text)),
    bindparam("amounts", type_=ARRAY(BigInteger)),
)

CLAIM = text("""
WITH moved AS (
  UPDATE runs SET state = 'admitted', epoch = epoch + 1, attempt = attempt + 1, host = :host, worker = :worker,
         provider = :provider, model = :model, image = :image, max_turns = :max_turns, max_tokens = :max_tokens,
         cost_cap_micros = :cost_cap, mutex = :mutex, project = :project, cause = NULL, not_before = NULL,
         blocked_by = NULL, admitted_at = now(), state_since = clock_timestamp(), deadline_at = NULL,
         admission = :facts
  WHERE id = :id AND epoch = :epoch RETURNING id, attempt, epoch),
attempted AS (
  INSERT INTO run_attempts (run_id, attempt, host, engine_id, image_id)
  SELECT id, attempt, :host, :engine_id, :image_id FROM moved),
reserved AS (
  INSERT INTO reservations (run_id, window_id, held)
  SELECT moved.id, w, amount FROM moved, unnest(:windows, :amounts) AS asked (w, amount)
  ON CONFLICT (run_id, window_id) DO UPDATE
    SET state = 'held', held = excluded.held, settled = NULL, closed_at = NULL),
occupied AS (
  UPDATE scopes SET occupied = occupied + 1, last_started_at = now() WHERE key = ANY(:keys))
SELECT attempt, epoch FROM moved
""").bindparams(
    bindparam("windows", type_=ARRAY(BigInteger)),
    bindparam("amounts", type_=ARRAY(BigInteger)),
    bindparam("keys", type_=ARRAY(Text)),
    bindparam("facts", type_=JSONB),
    bindparam("max_turns", type_=Integer),
    bindparam("max_tokens", type_=BigInteger),
    bindparam("cost_cap", type_=BigInteger),
    bindparam("mutex", type_=Text),
    bindparam("project", type_=Text),
    bindparam("engine_id", type_=Text),
)

DEFER = text("""
UPDATE runs SET state = 'deferred', epoch = epoch + 1, cause = :cause, mutex = coalesce(:mutex, mutex),
       project = coalesce(:project, project), not_before = :until, blocked_by = :blocked_by,
       state_since = clock_timestamp(), admission = coalesce(:facts, admission)
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')
""").bindparams(
    bindparam("until", type_=DateTime(timezone=True)),
    bindparam("blocked_by", type_=BigInteger),
    bindparam("mutex", type_=Text),
    bindparam("project", type_=Text),
    bindparam("facts", type_=JSONB),
)
REFUSE = text("""
UPDATE runs SET state = 'ended', epoch = epoch + 1, outcome = 'policy', result = 'none', reason = :reason, why = :why,
       provider = coalesce(provider, :provider), model = coalesce(model, :model), cause = NULL, not_before = NULL,
       blocked_by = NULL, ended_at = clock_timestamp(), state_since = clock_timestamp(),
       admission = coalesce(:facts, admission)
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')
""").bindparams(
    bindparam("facts", type_=JSONB),
    bindparam("why", type_=Text),
    bindparam("provider", type_=Text),
    bindparam("model", type_=Text),
)
# A scope made after the last `sync` has no bound yet, and all its waiters would be offered one by one.
SET_BOUND = text('UPDATE scopes SET "limit" = :bound WHERE key = :key')
SYNC_LIMITS = text("""
UPDATE scopes SET "limit" = asked.bound
FROM (SELECT s.key, w.bound FROM scopes s LEFT JOIN unnest(:keys, :bounds) AS w (key, bound) ON w.key = s.key
      WHERE s.key NOT LIKE 'inode:%' AND s.key <> '*') AS asked
WHERE scopes.key = asked.key AND scopes."limit" IS DISTINCT FROM asked.bound
""").bindparams(bindparam("keys", type_=ARRAY(Text)), bindparam("bounds", type_=ARRAY(Integer)))
SET_CAPACITY = text("UPDATE hosts SET capacity = :capacity WHERE name = :host AND capacity <> :capacity")


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
