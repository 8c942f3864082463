"""Hold a run until what it waits for is true: claim it for a look, write what the look decided."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any, assert_never

from sqlalchemy import Connection

from pidispatch.domain import words
from pidispatch.domain.run import NewRun
from pidispatch.domain.triggers import WaitAfter
from pidispatch.domain.waiting import Answer, GiveUp, HeldRun, Hold, Progress, Start, Step, read, written
from pidispatch.store import waitsql
from pidispatch.store.database import Database
from pidispatch.store.ledger import close, expire_payload

LOOK_LEASE = timedelta(seconds=10)  # a look that asks no program takes milliseconds


def add_wait(connection: Connection, run_id: int, run: NewRun) -> None:
    """The run was written in this transaction and nobody has seen it: from its first moment it is held."""
    conditions = written(run.wait_for)
    connection.execute(waitsql.ADD, {"run": run_id, "conditions": conditions, "key": run.wait_key})
    until = max((each.instant for each in run.wait_for if isinstance(each, WaitAfter)), default=None)
    connection.execute(waitsql.HELD, {"run": run_id, "cause": words.WAIT, "until": until})


def end_wait(connection: Connection, run_id: int) -> None:
    """The run ends by other means; one that waits for nothing is not touched."""
    connection.execute(waitsql.LET_GO, {"run": run_id})


class PostgresWaits:
    """Implements `ports.Waits`. `check_seconds` is how long one program may take, with its end.

    Lock order: the turn of the checks, the run with its wait, the turn of its key.
    """

    def __init__(self, database: Database, *, host: str, worker: str, check_seconds: float) -> None:
        self._database = database
        self._host, self._worker = host, worker
        self._check = timedelta(seconds=check_seconds)

    def claim(self, *, asking: bool, slots: int) -> HeldRun | None:
        with self._database.transaction() as connection:
            if asking and not _has_slot(connection, slots):
                return None
            row = connection.execute(waitsql.DUE, {"host": self._host, "asking": asking}).one_or_none()
            return None if row is None else self._claimed(connection, row)

    def settle(self, held: HeldRun, step: Step) -> Step | None:
        with self._database.transaction() as connection:
            asked = {"run": held.run_id, "epoch": held.epoch}
            if connection.execute(waitsql.LOCK, asked).one_or_none() is None:
                return None
            decided = _unless_done(connection, held, step)
            _write(connection, held.run_id, decided)
            return decided

    def seconds_to_next(self) -> float | None:
        with self._database.transaction() as connection:
            found: float | None = connection.execute(waitsql.NEXT, {"host": self._host}).scalar_one()
            return found

    def _claimed(self, connection: Connection, row: Any) -> HeldRun:
        run_id, public_id, target, pinned_host, key, conditions, asking, *progress = row
        started_by, held_by = _siblings(connection, run_id, key, asking=asking)
        wanted = read(conditions)
        lease = (len(wanted or ()) + 1) * self._check if asking else LOOK_LEASE
        leased = connection.execute(
            waitsql.LEASE, {"run": run_id, "lease": lease, "worker": self._worker}
        ).one()
        return HeldRun(
            run_id=run_id,
            public_id=public_id,
            epoch=leased.epoch,
            target=target,
            pinned_host=pinned_host,
            key=key,
            conditions=wanted,
            asking=asking,
            progress=_progress(*progress),
            now=leased.now,
            started_by=started_by,
            held_by=held_by,
        )


def _has_slot(connection: Connection, slots: int) -> bool:
    connection.execute(waitsql.TURN, {"what": "checks"})
    checking: int = connection.execute(waitsql.CHECKING).scalar_one()
    return checking < slots


def _siblings(
    connection: Connection, run_id: int, key: str | None, *, asking: bool
) -> tuple[int | None, int | None]:
    """Who of the key was let go a moment ago, and who is asked after; when nobody is, this run will be."""
    if key is None:
        return None, None
    started_by = _marked(connection, run_id, key)
    connection.execute(waitsql.RELEASE_DEAD, {"key": key})
    held_by: int | None = connection.execute(waitsql.HOLDER, {"run": run_id, "key": key}).scalar_one_or_none()
    if asking and started_by is None and held_by is None:
        connection.execute(waitsql.BECOME_HOLDER, {"run": run_id})
    return started_by, held_by


def _marked(connection: Connection, run_id: int, key: str) -> int | None:
    connection.execute(waitsql.TURN, {"what": f"key {key}"})
    found: int | None = connection.execute(waitsql.MARK, {"run": run_id, "key": key}).scalar_one_or_none()
    return found


def _unless_done(connection: Connection, held: HeldRun, step: Step) -> Step:
    """Two of one key that are found ready at the same moment: the second is told here."""
    if isinstance(step, Start) and held.key is not None:
        started_by = _marked(connection, held.run_id, held.key)
        if started_by is not None:
            return GiveUp(words.WAIT_SUPERSEDED, step.progress, started_by)
    return step


def _write(connection: Connection, run_id: int, step: Step) -> None:
    match step:
        case Start(progress):
            connection.execute(waitsql.QUEUE, {"run": run_id})
            _keep(connection, run_id, progress, let_go=True)
        case Hold(until, progress, asking):
            connection.execute(waitsql.WAIT_ON, {"run": run_id, "until": until})
            _keep(connection, run_id, progress, until=until, asking=asking)
        case GiveUp(reason, progress, for_run):
            close(connection, run_id)
            connection.execute(waitsql.END, {"run": run_id, "reason": reason})
            expire_payload(connection, run_id)
            _keep(connection, run_id, progress, for_run=for_run)
        case _:
            assert_never(step)


def _keep(connection: Connection, run_id: int, progress: Progress, **more: Any) -> None:
    answer = None if progress.last_answer is None else str(progress.last_answer)
    kept = {"until": None, "asking": False, "let_go": False, "for_run": None, **asdict(progress), **more}
    connection.execute(waitsql.PROGRESS, {"run": run_id, **kept, "last_answer": answer})


def _progress(held_since: Any, asked_since: Any, checks: int, faults: int, *last: Any) -> Progress:
    profile, answer, at = last
    return Progress(
        held_since, asked_since, checks, faults, profile, None if answer is None else Answer(answer), at
    )
