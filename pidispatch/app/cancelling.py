"""End runs because a person says so, and say which are proven gone."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pidispatch.app.actor import actor
from pidispatch.app.databases import opened
from pidispatch.app.receipts import read_after
from pidispatch.app.ringing import ring
from pidispatch.config import Settings
from pidispatch.domain.runs.run import State
from pidispatch.queue.bells import RedisBell
from pidispatch.store.database import Database
from pidispatch.store.read import history
from pidispatch.store.read.history import RunRecord
from pidispatch.store.runs import cancelling
from pidispatch.store.runs.cancelling import CancelRequest

__all__ = ["Cancelled", "RunRecord", "cancel", "cancel_all"]

WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of one cancel. `was` is the run's state before it; `gone`: no container, and all of it settled.

    `had_ended`: there was nothing to cancel. A run that is not gone is still being stopped. `run` is None where it could
    not be read any more, and `unread` says why: the cancel is stored, and nobody knows yet whether its box is gone.
    """

    public_id: str
    was: State
    had_ended: bool
    gone: bool
    run: RunRecord | None
    unread: str | None = None


def cancel(settings: Settings, name: str, *, reason: str | None) -> Cancelled:
    """Return when the run is gone, or after 30 s. Raises NoSuchRun, and as `opened`."""
    with opened(settings) as database:
        run_id = history.find_run(database, name).id
        asked = [cancelling.cancel(database, run_id, actor=actor(settings), reason=reason)]
        return _await(database, settings, asked)[0]


def cancel_all(settings: Settings, *, reason: str | None) -> Sequence[Cancelled]:
    """Every run that had not ended when this was called. All are asked before one is waited for. Raises as `opened`."""
    who = actor(settings)
    with opened(settings) as database:
        live = cancelling.live_runs(database)
        asked = {
            run_id: cancelling.cancel_if_free(database, run_id, actor=who, reason=reason) for run_id in live
        }
        _ring(settings, [one for one in asked.values() if one is not None])
        for run_id in [run_id for run_id, one in asked.items() if one is None]:
            asked[run_id] = cancelling.cancel(database, run_id, actor=who, reason=reason)
        told = [one for one in asked.values() if one is not None and not one.had_ended]
        return _await(database, settings, told)


def _await(database: Database, settings: Settings, asked: Sequence[CancelRequest]) -> Sequence[Cancelled]:
    """Wake the hosts that hold the boxes, and look until all are gone or the time is over."""
    stopping = _ring(settings, asked)
    until = time.monotonic() + WAIT_SECONDS
    open_ids = {one.run_id for one in stopping}
    while open_ids:
        ended, _ = read_after(partial(cancelling.ended_of, database, sorted(open_ids)))
        open_ids -= set(ended or ())
        if time.monotonic() >= until:
            break
        if open_ids:
            time.sleep(LOOK_SECONDS)
    return [_told(database, one) for one in asked]


def _ring(settings: Settings, asked: Sequence[CancelRequest]) -> Sequence[CancelRequest]:
    """Wake the hosts of those that hold a slot, and return these."""
    stopping = [one for one in asked if one.host is not None and not one.had_ended]
    if stopping:
        ring(settings, lambda bell: _wake(bell, stopping))
    return stopping


def _wake(bell: RedisBell, stopping: Sequence[CancelRequest]) -> None:
    """A finisher whose ending became stale by the cancel is rung for again; for the others a look is enough."""
    for one in stopping:
        if one.state is State.FINISHING:
            bell.ring_finish(str(one.host), one.run_id)
    for host in {str(one.host) for one in stopping}:
        bell.ring_look(host)


def _told(database: Database, asked: CancelRequest) -> Cancelled:
    run, unread = read_after(lambda: history.run_record(database, asked.run_id))
    if run is None:
        gone = not asked.had_ended and asked.host is None  # it waited: its ending was the cancel itself
        return Cancelled(asked.public_id, asked.state, asked.had_ended, gone, None, unread)
    return Cancelled(asked.public_id, asked.state, asked.had_ended, run.ended and not asked.had_ended, run)
