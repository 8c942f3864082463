"""Write down what arrived and what became of it: one delivery, one decision, at most one run, in one transaction."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from pidispatch.domain import words
from pidispatch.domain.arrival import PEOPLE, Arrival, Arrived, Became, Delivery, Step, There, decide
from pidispatch.domain.replicas import replica_subject, replicas_of
from pidispatch.domain.run import NewRun
from pidispatch.domain.subject import SUBJECT
from pidispatch.domain.triggers import WhileRunning
from pidispatch.store.cancelling import end_waiting
from pidispatch.store.database import Database
from pidispatch.store.pipeline import COMMIT, Asked, together
from pidispatch.store.probes import Probes
from pidispatch.store.runs import REQUEST_STOP
from pidispatch.store.submissions import add_runs

# All that arrives for one subject takes turns here. Whoever held this lock before has committed, so that each
# statement that follows, with a snapshot of its own, sees all of it.
LOCK_SUBJECT = text("""
INSERT INTO subjects (key, scope, item, lane) VALUES (:key, :scope, :item, :lane)
ON CONFLICT (key) DO UPDATE SET arrived_at = clock_timestamp()
""")
# A delivery that was dropped may be decided anew when it is sent again: the file may have changed.
ADD_DELIVERY = text("""
INSERT INTO deliveries AS d (source, delivery_id, body_hash, event, action, repo, number, sender_id, subject, occurrence,
                             decision)
VALUES (:source, :delivery_id, :body_hash, :event, :action, :repo, :number, :sender_id, :subject, :occurrence, 'arriving')
ON CONFLICT (source, delivery_id) DO UPDATE SET repeats = d.repeats + 1,
  subject = coalesce(d.subject, excluded.subject), occurrence = coalesce(d.occurrence, excluded.occurrence)
RETURNING id, decision, run_id, (SELECT public_id FROM runs r WHERE r.id = d.run_id) AS public_id
""")
# The same body under another id, or the same occurrence from another source.
SEEN = text("""
SELECT d.run_id, r.public_id, coalesce(d.source = :source AND d.body_hash = :body_hash, false) AS same_body
FROM deliveries d JOIN runs r ON r.id = d.run_id
WHERE d.received_at > clock_timestamp() - interval '24 hours'
  AND (d.source = :source AND d.body_hash = :body_hash OR d.subject = :subject AND d.occurrence = :occurrence)
ORDER BY d.id LIMIT 1
""")
ANSWERED = text("""
SELECT d.run_id, r.public_id FROM deliveries d LEFT JOIN runs r ON r.id = d.run_id
WHERE d.source = :source AND d.delivery_id = :delivery_id AND d.decision <> 'dropped'
""")
# Of replicas the first speaks for all.
LIVE = text("""
SELECT r.id, r.public_id, r.state IN ('queued', 'deferred', 'held') AND r.started_at IS NULL AS waits,
       r.stop_reason IS NOT NULL AS stops
FROM runs r WHERE r.subject IN (:subject, :subject || '\\:r1') AND r.ended_at IS NULL ORDER BY r.id FOR NO KEY UPDATE
""")
# A run that is made up for was due long ago: nobody tells of it now.
TOLD = text(f"""
SELECT r.id, r.public_id, r.state IN ('queued', 'deferred', 'held') AND r.started_at IS NULL AS waits, false AS stops
FROM runs r WHERE r.subject IN (:subject, :subject || '\\:r1') AND r.created_at > clock_timestamp() - make_interval(secs => :window)
  AND (r.ended_at IS NULL OR NOT :asked_by_a_person) AND r.cause IS DISTINCT FROM '{words.CATCH_UP}'
  AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.run_id = r.id AND d.source = :source)
ORDER BY r.id DESC LIMIT 1
""")  # noqa: S608 - fixed words
ANSWER = text("UPDATE deliveries SET decision = :decision, reason = :reason, run_id = :run WHERE id = :id")
# The newest content wins. A one-shot that another run has spent is not asked for twice.
RENEW = text("""
UPDATE run_payloads SET task = :task, task_bytes = :task_bytes, title = :title, body = :body, event = :event
WHERE run_id = :run
""")
SPENDS = text("""
UPDATE runs SET one_shot = :one_shot
WHERE id = :run AND one_shot IS NULL AND NOT EXISTS (SELECT 1 FROM one_shots o WHERE o.key = :one_shot)
""")
# Like a run that found its scope busy: due as soon as there is room, whoever looks.
WAIT_BEHIND = text(f"""
UPDATE runs SET state = 'deferred', cause = '{words.SCOPE}', blocked_by = :blocker, epoch = epoch + 1 WHERE id = :run
""")  # noqa: S608 - fixed words
# Of a run that was found in LIVE, it and its replicas, which were made with it.
ALL_OF = text("""
SELECT r.id FROM runs r JOIN runs first ON first.id = :run
WHERE r.ended_at IS NULL AND (r.id = first.id OR first.replicas IS NOT NULL AND r.subject IN (:second, :third)
      AND r.created_at = first.created_at)
ORDER BY r.id FOR NO KEY UPDATE OF r
""")
NOW = text("SELECT now()")
BY_PUBLIC_ID = text("SELECT id FROM runs WHERE public_id = :public_id")


class PostgresArrivals:
    """Implements `ports.Arrivals`. Lock order: subject, delivery, runs by id, breaker, scopes, windows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def answered(self, source: str, delivery_id: str) -> Arrived | None:
        with self._database.transaction() as connection:
            asked = {"source": source, "delivery_id": delivery_id}
            row = connection.execute(ANSWERED, asked).one_or_none()
        return None if row is None else Arrived(Became.DUPLICATE, row.run_id, row.public_id)

    def arrive(self, arrival: Arrival) -> Arrived:
        with self._database.transaction() as connection:
            delivery, seen, live, told = _look(connection, arrival)
            if delivery.decision not in {"arriving", Became.DROPPED}:
                return Arrived(Became.DUPLICATE, delivery.run_id, delivery.public_id)
            reason: str | None
            if seen:
                kind = Became.DUPLICATE if seen[0].same_body else Became.COALESCED
                arrived = Arrived(kind, seen[0].run_id, seen[0].public_id)
                reason = words.SAME_BODY if seen[0].same_body else words.SAME_OCCURRENCE
            else:
                arrived = _act(connection, arrival, decide(arrival.while_running, live, told))
                reason = arrived.why
            _answer(connection, delivery.id, arrived, reason)
            return arrived

    def drop(self, delivery: Delivery, reason: str) -> Arrived:
        with self._database.transaction() as connection:
            ((row,),) = together(connection, (ADD_DELIVERY, {**asdict(delivery), "subject": None}))
            if row.decision not in {"arriving", Became.DROPPED}:
                return Arrived(Became.DUPLICATE, row.run_id, row.public_id)
            arrived = Arrived(Became.DROPPED)
            _answer(connection, row.id, arrived, reason)
            return arrived


def _look(connection: Connection, arrival: Arrival) -> tuple[Any, list[Any], tuple[There, ...], There | None]:
    delivery, subject = arrival.delivery, arrival.subject
    asked = {
        **asdict(delivery),
        "subject": subject.key,
        "window": arrival.window,
        "asked_by_a_person": delivery.source in PEOPLE,
    }
    _, seen, (row,), live, told = together(
        connection,
        (LOCK_SUBJECT, {**asdict(subject), "key": subject.key}),
        (SEEN, asked),
        (ADD_DELIVERY, asked),
        (LIVE, asked),
        (TOLD, asked),
    )
    told_of = _there(told)
    return row, seen, _there(live), told_of[0] if told_of else None


def _there(rows: Sequence[Any]) -> tuple[There, ...]:
    return tuple(There(row.id, row.public_id, row.waits, row.stops) for row in rows)


def _answer(connection: Connection, delivery: int, arrived: Arrived, reason: str | None) -> None:
    values = {"id": delivery, "decision": str(arrived.kind), "reason": reason, "run": arrived.run_id}
    together(connection, (ANSWER, values), (COMMIT, {}))


def _act(connection: Connection, arrival: Arrival, step: Step) -> Arrived:
    at = step.at
    if at is None:
        return _start(connection, arrival, None, Became.STARTED)
    match step.kind:
        case Became.COALESCED:
            if at.waits and _has_news(arrival):
                _renew(connection, arrival, at.run_id)
            return Arrived(Became.COALESCED, at.run_id, at.public_id)
        case Became.QUEUED:
            return _start(connection, arrival, at, Became.QUEUED)
        case Became.SUPERSEDING:
            return _supersede(connection, arrival, step, at)
        case kind:
            return Arrived(kind, at.run_id, at.public_id)


def _has_news(arrival: Arrival) -> bool:
    """In a folder the task is part of the subject: who asks again says nothing new."""
    return arrival.run.kind != "local"


def _renew(connection: Connection, arrival: Arrival, run_id: int) -> None:
    run = arrival.run
    content = {"task": run.task, "task_bytes": run.task_bytes, "title": run.title, "body": run.body}
    for each in _all_of(connection, arrival, run_id):
        renewal: list[Asked] = [(RENEW, {**content, "event": run.event, "run": each})]
        if run.one_shot is not None:
            renewal.append((SPENDS, {"run": each, "one_shot": run.one_shot}))
        together(connection, *renewal)


def _all_of(connection: Connection, arrival: Arrival, run_id: int) -> Sequence[int]:
    second, third = (replica_subject(arrival.subject.key, number) for number in (2, 3))
    asked = {"run": run_id, "second": second, "third": third}
    return [row.id for row in connection.execute(ALL_OF, asked)]


def _start(connection: Connection, arrival: Arrival, behind: There | None, kind: Became) -> Arrived:
    """All replicas or none; where a breaker lets one through as its probe, that one alone."""
    probes = _probes(connection, arrival)
    asked = replicas_of(replace(arrival.run, subject=arrival.subject.key), arrival.replicas)
    runs = [run for run in asked if probes.lets(run)]
    if not runs:
        return Arrived(Became.SKIPPED, why=words.BREAKER_OPEN)
    made = add_runs(connection, [_with_lock(run, arrival) for run in runs])
    probes.write()
    first = runs[0].public_id
    if first not in made:
        there: int = connection.execute(BY_PUBLIC_ID, {"public_id": first}).scalar_one()
        return Arrived(Became.DUPLICATE, there, first)
    if behind is None:
        return Arrived(kind, made[first], first)
    for run_id in made.values():
        connection.execute(WAIT_BEHIND, {"run": run_id, "blocker": behind.run_id})
    return Arrived(kind, made[first], first, behind.public_id)


def _with_lock(run: NewRun, arrival: Arrival) -> NewRun:
    """A run of a folder has the folder's lock; any other has its subject's, unless it may go on beside another."""
    if run.mutex is not None or run.subject is None or arrival.while_running is WhileRunning.PARALLEL:
        return run
    return replace(run, mutex=SUBJECT + run.subject)


def _probes(connection: Connection, arrival: Arrival) -> Probes:
    """A person is not held back: who asks by hand knows of the failures, or wants to see."""
    trigger = None if arrival.delivery.source in PEOPLE else arrival.run.trigger_id
    now: datetime = connection.execute(NOW).scalar_one()
    return Probes(connection, set() if trigger is None else {trigger}, now)


def _supersede(connection: Connection, arrival: Arrival, step: Step, old: There) -> Arrived:
    """The new run first: what the old one held in a window is closed last."""
    if step.joins is None:
        new = _start(connection, arrival, old, Became.SUPERSEDING)
        if new.kind is Became.SKIPPED:
            return new
    else:
        _renew(connection, arrival, step.joins.run_id)
        new = Arrived(Became.SUPERSEDING, step.joins.run_id, step.joins.public_id, old.public_id)
    for run_id in _all_of(connection, arrival, old.run_id):
        asked = connection.execute(REQUEST_STOP, {"id": run_id, "reason": words.SUPERSEDED})
        if asked.rowcount == 0:  # it holds no slot: it was to be tried again later
            end_waiting(connection, run_id, words.SUPERSEDED)
    return new
