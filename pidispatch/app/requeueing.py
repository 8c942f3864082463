"""Repeat a run that has ended."""

from dataclasses import dataclass

from pidispatch.app.actor import actor
from pidispatch.app.databases import opened
from pidispatch.app.reading import standing_of
from pidispatch.app.ringing import ring
from pidispatch.config import Settings
from pidispatch.store import history, requeueing
from pidispatch.store.history import RunRecord
from pidispatch.store.standing import QueueStatus

__all__ = ["Repeated", "RunRecord", "requeue"]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The new run, and what was true of the queue right after. `duplicate`: asked again within one minute."""

    public_id: str
    requeue_of: str
    duplicate: bool
    rung: bool
    run: RunRecord
    queue: QueueStatus


def requeue(settings: Settings, name: str, *, task: bytes | None) -> Repeated:
    """Raises NoSuchRun, CannotRequeue, and as `opened`. Needs no engine: every gate is passed again at its start."""
    with opened(settings) as database:
        old = history.find_run(database, name)
        made = requeueing.requeue(database, old.id, actor=actor(settings), task=task)
        run = history.find_run(database, made.public_id)
        rung = not made.duplicate and ring(settings, lambda bell: bell.ring_start(run.pinned_host or ""))
        return Repeated(
            made.public_id, old.public_id, made.duplicate, rung, run, standing_of(database, settings)
        )
