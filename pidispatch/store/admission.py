"""Admit one waiting run: every fact, the reservation and the claim in one transaction."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.sql import bindparam
from sqlalchemy.types import BigInteger, Integer, Text

from pidispatch.domain.limits import Exceeds, RunCap, WindowFill, decide
from pidispatch.domain.run import Claim, Waiting
from pidispatch.ports import Admitted, Answer, Deferred, NoRoom, Passed, Ready, Refused
from pidispatch.store.database import Database
from pidispatch.store.ledger import close, expire_payload
from pidispatch.store.models import OCCUPYING_SQL

# Priority with ageing (600 s of waiting are one step), scopes in turn, then age. A run deferred for its folder is due
# as soon as the folder is free; one deferred for a time, when that has come.
CANDIDATES = text("""
SELECT r.id, r.public_id, r.epoch, p.folder, r.scope, r.provider, r.model, r.image, r.max_turns, r.max_tokens,
       r.flow, r.attempt
FROM runs r JOIN scopes s ON s.key = r.scope JOIN run_payloads p ON p.run_id = r.id
LEFT JOIN scopes m ON m.key = r.mutex
WHERE (r.pinned_host IS NULL OR r.pinned_host = :host)
  AND r.state IN ('queued', 'deferred')
  AND (r.not_before IS NULL OR r.not_before <= now())
  AND (m.key IS NULL OR m.occupied = 0)
  AND s.paused_at IS NULL AND NOT EXISTS (SELECT 1 FROM scopes g WHERE g.key = '*' AND g.paused_at IS NOT NULL)
  AND NOT (r.id = ANY(:passed))
ORDER BY floor((r.priority * 600 + extract(epoch FROM now() - r.queued_at)) / 600) DESC,
         s.last_started_at NULLS FIRST, r.queued_at, r.id
LIMIT 1
""").bindparams(bindparam("passed", type_=ARRAY(BigInteger)))

LOCK_RUN = text("""
SELECT r.id, EXISTS (SELECT 1 FROM reservations v WHERE v.run_id = r.id AND v.state = 'held') AS reserved
FROM runs r WHERE r.id = :id AND r.epoch = :epoch AND r.state IN ('queued', 'deferred') FOR UPDATE SKIP LOCKED
""")
ADD_MUTEX = text('INSERT INTO scopes (key, "limit") VALUES (:mutex, 1) ON CONFLICT (key) DO NOTHING')
LOCK_EVERYTHING = text("SELECT paused_at FROM scopes WHERE key = '*' FOR SHARE")
LOCK_SCOPES = text("""
SELECT key, occupied, "limit", paused_at FROM scopes WHERE key = ANY(:keys) ORDER BY key FOR UPDATE
""").bindparams(bindparam("keys", type_=ARRAY(Text)))
BLOCKER = text(f"SELECT id FROM runs WHERE mutex = :mutex AND state IN ({OCCUPYING_SQL}) LIMIT 1")  # noqa: S608
LOCK_HOST = text(f"""
SELECT h.capacity - (SELECT count(*) FROM runs r WHERE r.host = h.name AND r.state IN ({OCCUPYING_SQL})) AS free
FROM hosts h WHERE h.name = :host FOR UPDATE
""")  # noqa: S608

# One round trip counts the run in every window and says what each holds now; a refusal rolls back to the savepoint.
COUNT_IN = text("""
INSERT INTO spend_windows (scope, unit, period, starts_on, used)
SELECT scope, 'runs', period,
       CASE period WHEN 'day' THEN (now() AT TIME ZONE 'UTC')::date
                   WHEN 'week' THEN date_trunc('week', now() AT TIME ZONE 'UTC')::date
                   ELSE date_trunc('month', now() AT TIME ZONE 'UTC')::date END, 1
FROM unnest(:scopes, :periods) AS asked (scope, period)
ON CONFLICT (scope, unit, period, starts_on) DO UPDATE SET used = spend_windows.used + 1
RETURNING id, scope, period, used
""").bindparams(bindparam("scopes", type_=ARRAY(Text)), bindparam("periods", type_=ARRAY(Text)))

CLAIM = text("""
WITH moved AS (
  UPDATE runs SET state = 'admitted', epoch = epoch + 1, attempt = attempt + 1, host = :host, worker = :worker,
         provider = :provider, model = :model, image = :image, max_turns = :max_turns, max_tokens = :max_tokens,
         mutex = :mutex, cause = NULL, not_before = NULL, blocked_by = NULL, admitted_at = now(),
         state_since = clock_timestamp(), deadline_at = NULL, admission = :facts
  WHERE id = :id AND epoch = :epoch RETURNING id, attempt, epoch),
attempted AS (
  INSERT INTO run_attempts (run_id, attempt, host, engine_id, image_id)
  SELECT id, attempt, :host, :engine_id, :image_id FROM moved),
reserved AS (
  INSERT INTO reservations (run_id, window_id, held) SELECT moved.id, w, 1 FROM moved, unnest(:windows) AS w
  ON CONFLICT (run_id, window_id) DO UPDATE SET state = 'held', held = 1, settled = NULL, closed_at = NULL),
occupied AS (
  UPDATE scopes SET occupied = occupied + 1, last_started_at = now() WHERE key = ANY(:keys))
SELECT attempt, epoch FROM moved
""").bindparams(
    bindparam("windows", type_=ARRAY(BigInteger)),
    bindparam("keys", type_=ARRAY(Text)),
    bindparam("facts", type_=JSONB),
    bindparam("max_turns", type_=Integer),
    bindparam("max_tokens", type_=BigInteger),
    bindparam("mutex", type_=Text),
    bindparam("engine_id", type_=Text),
)

DEFER = text("""
UPDATE runs SET state = 'deferred', epoch = epoch + 1, cause = :cause, mutex = coalesce(:mutex, mutex),
       not_before = CASE WHEN :seconds IS NULL THEN NULL ELSE now() + make_interval(secs => :seconds) END,
       blocked_by = :blocked_by, state_since = clock_timestamp(), admission = coalesce(:facts, admission)
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')
""").bindparams(
    bindparam("seconds", type_=Integer),
    bindparam("blocked_by", type_=BigInteger),
    bindparam("mutex", type_=Text),
    bindparam("facts", type_=JSONB),
)
REFUSE = text("""
UPDATE runs SET state = 'ended', epoch = epoch + 1, outcome = 'policy', result = 'none', reason = :reason, why = :why,
       provider = coalesce(provider, :provider), model = coalesce(model, :model), cause = NULL, not_before = NULL,
       blocked_by = NULL, ended_at = clock_timestamp(), state_since = clock_timestamp(),
       admission = coalesce(:facts, admission)
WHERE id = :id AND epoch = :epoch AND state IN ('queued', 'deferred')
""").bindparams(bindparam("facts", type_=JSONB), bindparam("why", type_=Text))


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

    def admit(self, run: Waiting, ready: Ready, caps: Sequence[RunCap]) -> Answer:
        with self._database.transaction() as connection:
            locked = connection.execute(LOCK_RUN, {"id": run.run_id, "epoch": run.epoch}).one_or_none()
            if locked is None:
                return Passed()
            held_back = self._held_back(connection, run, ready)
            if held_back is not None:
                return held_back
            free = connection.execute(LOCK_HOST, {"host": self._host}).scalar_one()
            if free < 1:
                return NoRoom()
            if locked.reserved:  # a further attempt of a run that already paid for its place
                return Admitted(self._claim(connection, run, ready, {}))
            return self._take_windows(connection, run, ready, caps)

    def defer(self, run: Waiting, *, cause: str, seconds: int) -> None:
        with self._database.transaction() as connection:
            _defer(connection, run, cause=cause, seconds=seconds)

    def refuse(self, run: Waiting, *, reason: str, why: str | None, provider: str, model: str) -> None:
        with self._database.transaction() as connection:
            locked = connection.execute(LOCK_RUN, {"id": run.run_id, "epoch": run.epoch}).one_or_none()
            if locked is not None:
                close(connection, run.run_id)
                _refuse(connection, run, reason=reason, why=why, provider=provider, model=model)

    def _held_back(self, connection: Connection, run: Waiting, ready: Ready) -> Deferred | None:
        """A pause or a busy folder. `FOR SHARE`: nothing is admitted after a pause has returned."""
        if ready.mutex is not None:
            connection.execute(ADD_MUTEX, {"mutex": ready.mutex})
        paused = connection.execute(LOCK_EVERYTHING).scalar_one()
        scopes = connection.execute(LOCK_SCOPES, {"keys": _scope_keys(run, ready)}).all()
        if paused is not None or any(scope.paused_at is not None for scope in scopes):
            _defer(connection, run, cause="paused")
            return Deferred("paused")
        if any(scope.limit is not None and scope.occupied >= scope.limit for scope in scopes):
            blocker = connection.execute(BLOCKER, {"mutex": ready.mutex}).scalar_one_or_none()
            _defer(connection, run, cause="scope", blocked_by=blocker, mutex=ready.mutex)
            return Deferred("scope")
        return None

    def _take_windows(
        self, connection: Connection, run: Waiting, ready: Ready, caps: Sequence[RunCap]
    ) -> Answer:
        """Narrowest window first, the global ones last; a refusal leaves no trace in any of them."""
        savepoint = connection.begin_nested()
        by_window = {(cap.scope, cap.period): cap for cap in caps}
        rows = connection.execute(
            COUNT_IN, {"scopes": [cap.scope for cap in caps], "periods": [str(cap.period) for cap in caps]}
        ).all()
        fills = [WindowFill(by_window[row.scope, row.period], row.used) for row in rows]
        facts = {f"{fill.cap.scope} {fill.cap.period}": [fill.used, fill.cap.cap] for fill in fills}
        verdict = decide(fills)
        if isinstance(verdict, Exceeds):
            savepoint.rollback()
            _refuse(
                connection,
                run,
                reason=verdict.reason,
                why=verdict.why,
                provider=ready.provider,
                model=ready.model,
                facts=facts,
            )
            return Refused(verdict.reason, verdict.why)
        return Admitted(self._claim(connection, run, ready, facts, windows=[row.id for row in rows]))

    def _claim(
        self,
        connection: Connection,
        run: Waiting,
        ready: Ready,
        facts: dict[str, Any],
        windows: Sequence[int] = (),
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
                "mutex": ready.mutex,
                "windows": list(windows),
                "keys": _scope_keys(run, ready),
                "facts": facts,
            },
        ).one()
        return Claim(run.run_id, run.public_id, row.attempt, row.epoch)


def _scope_keys(run: Waiting, ready: Ready) -> list[str]:
    return sorted({run.scope, ready.mutex or run.scope})


def _defer(
    connection: Connection,
    run: Waiting,
    *,
    cause: str,
    seconds: int | None = None,
    blocked_by: int | None = None,
    mutex: str | None = None,
) -> None:
    connection.execute(
        DEFER,
        {
            "id": run.run_id,
            "epoch": run.epoch,
            "cause": cause,
            "seconds": seconds,
            "blocked_by": blocked_by,
            "mutex": mutex,
            "facts": None,
        },
    )


def _refuse(
    connection: Connection,
    run: Waiting,
    *,
    reason: str,
    why: str | None,
    provider: str,
    model: str,
    facts: dict[str, Any] | None = None,
) -> None:
    connection.execute(
        REFUSE,
        {
            "id": run.run_id,
            "epoch": run.epoch,
            "reason": reason,
            "why": why,
            "provider": provider,
            "model": model,
            "facts": facts,
        },
    )
    expire_payload(connection, run.run_id)
