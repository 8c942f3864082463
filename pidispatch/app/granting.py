"""Let a run that stopped at a cap go on."""

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
from pidispatch.store.runs import granting

__all__ = ["GoingOn", "RunRecord", "grant"]


@dataclass(frozen=True, slots=True)
class GoingOn:
    """The new run, and what was true of the queue right after. `micros` is what it may spend.

    It is stored: where the rest could not be read, `run` and `queue` are None and `unread` says why.
    """

    public_id: str
    continues: str
    micros: int
    rung: bool
    run: RunRecord | None
    queue: QueueStatus | None
    unread: str | None = None


def grant(settings: Settings, name: str, *, micros: int) -> GoingOn:
    """Raises NoSuchRun, CannotGrant, and as `opened`. Every gate is passed again at its start."""
    with opened(settings) as database:
        old = history.find_run(database, name)
        made = granting.grant(database, old.id, micros=micros, actor=actor(settings))
        rung = ring(settings, lambda bell: bell.ring_start(old.pinned_host or ""))
        run, unread = read_after(lambda: history.run_record(database, made.run_id))
        queue = None
        if run is not None:
            queue, unread = read_after(lambda: standing_of(database, settings))
        return GoingOn(made.public_id, old.public_id, micros, rung, run, queue, unread)
