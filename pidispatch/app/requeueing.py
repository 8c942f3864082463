"""Repeat a run that has ended."""

from dataclasses import dataclass

from pidispatch.app.actor import actor
from pidispatch.app.databases import opened
from pidispatch.app.reading import standing_of
from pidispatch.app.receipts import read_after
from pidispatch.app.ringing import ring
from pidispatch.config import Settings
from pidispatch.store.read import history
from pidispatch.store.read.history import RunRecord
from pidispatch.store.read.queue import QueueStatus
from pidispatch.store.runs import requeueing

__all__ = ["Repeated", "RunRecord", "requeue"]


@dataclass(frozen=True, slots=True)
class Repeated:
    """The new run, and what was true of the queue right after. `duplicate`: asked again within one minute.

    It is stored: where the rest could not be read, `run` and `queue` are None and `unread` says why.
    """

    public_id: str
    requeue_of: str
    duplicate: bool
    rung: bool
    run: RunRecord | None
    queue: QueueStatus | None
    unread: str | None = None


def requeue(settings: Settings, name: str, *, task: bytes | None) -> Repeated:
    """Raises NoSuchRun, CannotRequeue, and as `opened`. Needs no engine: every gate is passed again at its start."""
    with opened(settings) as database:
        old = history.find_run(database, name)
        made = requeueing.requeue(database, old.id, actor=actor(settings), task=task)
        rung = not made.duplicate and ring(settings, lambda bell: bell.ring_start(old.pinned_host or ""))
        run, unread = read_after(lambda: history.find_run(database, made.public_id))
        queue = None
        if run is not None:
            queue, unread = read_after(lambda: standing_of(database, settings))
        return Repeated(made.public_id, old.public_id, made.duplicate, rung, run, queue, unread)
