"""Cancel, repeat, continue and hold back runs, give up a host, close a breaker: what an operator decides."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pidispatch.app.installation import Installation
from pidispatch.app.policy import FilePolicies
from pidispatch.app.verbs.queue import read_after, standing_of
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.limits.windows import EVERYTHING, PROJECT
from pidispatch.domain.runs.names import folder_scope
from pidispatch.domain.runs.run import State
from pidispatch.errors import ConfigurationRefused, PidispatchError
from pidispatch.queue.bells import RedisBell
from pidispatch.store import forgetting
from pidispatch.store.admission import pauses
from pidispatch.store.admission.pauses import Pause
from pidispatch.store.forgetting import Silence
from pidispatch.store.keptfiles import KeptFilesToRead
from pidispatch.store.read import history
from pidispatch.store.read.history import RunRecord
from pidispatch.store.read.queue import QueueStatus
from pidispatch.store.runs import cancelling, granting, requeueing
from pidispatch.store.runs.cancelling import CancelRequest
from pidispatch.store.triggers import breakers
from pidispatch.store.triggers.breakers import BreakerRecord, NoSuchTrigger

__all__ = [
    "Cancelled",
    "GoingOn",
    "NoSuchScope",
    "NoSuchTrigger",
    "Pause",
    "Repeated",
    "Resumed",
    "RunRecord",
    "Silence",
    "cancel",
    "cancel_all",
    "close_breaker",
    "forget_host",
    "grant",
    "pause",
    "requeue",
    "resume",
    "silent_host",
]

WAIT_SECONDS = 30.0
LOOK_SECONDS = 0.2


class NoSuchScope(PidispatchError):
    """Nothing answers to what was asked to be paused: a slip of the pen would hold nothing back."""


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


@dataclass(frozen=True, slots=True)
class Resumed:
    """`rung` is False when Redis did not answer: workers find the runs by themselves, within seconds."""

    pause: Pause
    rung: bool


def cancel(here: Installation, name: str, *, reason: str | None) -> Cancelled:
    """Return when the run is gone, or after 30 s. Raises NoSuchRun, and as `Installation.database`, as all here do."""
    run_id = history.find_run(here.database, name).id
    return _await(here, [cancelling.cancel(here.database, run_id, actor=here.actor, reason=reason)])[0]


def cancel_all(here: Installation, *, reason: str | None) -> Sequence[Cancelled]:
    """Every run that had not ended when this was called. All are asked before one is waited for."""
    who, database = here.actor, here.database
    asked = {
        run_id: cancelling.cancel_if_free(database, run_id, actor=who, reason=reason)
        for run_id in cancelling.live_runs(database)
    }
    _wake_hosts(here, [one for one in asked.values() if one is not None])
    for run_id in [run_id for run_id, one in asked.items() if one is None]:
        asked[run_id] = cancelling.cancel(database, run_id, actor=who, reason=reason)
    return _await(here, [one for one in asked.values() if one is not None and not one.had_ended])


def requeue(here: Installation, name: str, *, task: bytes | None) -> Repeated:
    """Raises NoSuchRun, CannotRequeue. Needs no engine: every gate is passed again at its start."""
    old = history.find_run(here.database, name)
    made = requeueing.requeue(here.database, old.id, actor=here.actor, task=task)
    rung = not made.duplicate and here.ring(lambda bell: bell.ring_start(old.pinned_host or ""))
    after = _after(here, lambda: history.find_run(here.database, made.public_id))
    return Repeated(made.public_id, old.public_id, made.duplicate, rung, *after)


def grant(here: Installation, name: str, *, micros: int) -> GoingOn:
    """Let a run that stopped at a cap go on. Raises NoSuchRun, CannotGrant. Every gate is passed again at its start."""
    old = history.find_run(here.database, name)
    made = granting.grant(here.database, old.id, micros=micros, actor=here.actor)
    rung = here.ring(lambda bell: bell.ring_start(old.pinned_host or ""))
    after = _after(here, lambda: history.run_record(here.database, made.run_id))
    return GoingOn(made.public_id, old.public_id, micros, rung, *after)


def pause(here: Installation, scope: str, *, reason: str | None, stops_calls: bool = False) -> Pause:
    """`scope` is `*`, a folder, `project:ID` or a key as `status` shows it. Raises NoSuchScope.

    With `stops_calls` its runs may make no model call either, within a second.
    """
    key = _key_of(here, scope)
    return pauses.pause(here.database, key, actor=here.actor, reason=reason, stops_calls=stops_calls)


def resume(here: Installation, scope: str, *, reason: str | None) -> Resumed:
    """Raises as `pause`. The row is the truth: bells only make it quick."""
    made = pauses.resume(here.database, _key_of(here, scope), actor=here.actor, reason=reason)
    due, _ = read_after(lambda: pauses.bells_after_resume(here.database))
    return Resumed(made, rung=due is not None and here.ring(partial(_ring_each, due)))


def silent_host(here: Installation, host: str) -> Silence:
    """What would be lost with it. Raises NoSuchHost, HostAlive."""
    return forgetting.silent_host(here.database, host)


def forget_host(here: Installation, host: str) -> Sequence[str]:
    """Give up a host that is gone for good; the public ids of the runs that are lost now. Raises as `silent_host`."""
    return forgetting.forget_host(here.database, host, actor=here.actor)


def close_breaker(here: Installation, trigger_id: str, *, reason: str | None) -> BreakerRecord | None:
    """Let a trigger start again. What stood there, None when nothing did. Raises NoSuchTrigger."""
    return breakers.close(here.database, trigger_id, actor=here.actor, reason=reason)


def _after(
    here: Installation, read_run: Callable[[], RunRecord]
) -> tuple[RunRecord | None, QueueStatus | None, str | None]:
    """What is true right after a run was stored, or the sentence why that could not be read."""
    run, unread = read_after(read_run)
    if run is None:
        return None, None, unread
    queue, unread = read_after(lambda: standing_of(here.database, here.settings))
    return run, queue, unread


def _await(here: Installation, asked: Sequence[CancelRequest]) -> Sequence[Cancelled]:
    """Wake the hosts that hold the boxes, and look until all are gone or the time is over."""
    until = time.monotonic() + WAIT_SECONDS
    open_ids = {one.run_id for one in _wake_hosts(here, asked)}
    while open_ids:
        ended, _ = read_after(partial(cancelling.ended_of, here.database, sorted(open_ids)))
        open_ids -= set(ended or ())
        if time.monotonic() >= until:
            break
        if open_ids:
            time.sleep(LOOK_SECONDS)
    return [_cancelled(here, one) for one in asked]


def _wake_hosts(here: Installation, asked: Sequence[CancelRequest]) -> Sequence[CancelRequest]:
    """Wake the hosts of those that hold a slot, and return these."""
    stopping = [one for one in asked if one.host is not None and not one.had_ended]
    if stopping:
        here.ring(lambda bell: _ring_for(bell, stopping))
    return stopping


def _ring_for(bell: RedisBell, stopping: Sequence[CancelRequest]) -> None:
    """A finisher whose ending became stale by the cancel is rung for again; for the others a look is enough."""
    for one in stopping:
        if one.state is State.FINISHING:
            bell.ring_finish(str(one.host), one.run_id)
    for host in {str(one.host) for one in stopping}:
        bell.ring_look(host)


def _ring_each(due: Sequence[tuple[str, int]], bell: RedisBell) -> None:
    for host, bells in due:
        bell.ring_start(host, bells)


def _cancelled(here: Installation, asked: CancelRequest) -> Cancelled:
    run, unread = read_after(lambda: history.run_record(here.database, asked.run_id))
    if run is None:
        gone = not asked.had_ended and asked.host is None  # it waited: its ending was the cancel itself
        return Cancelled(asked.public_id, asked.state, asked.had_ended, gone, None, unread)
    return Cancelled(asked.public_id, asked.state, asked.had_ended, run.ended and not asked.had_ended, run)


def _key_of(here: Installation, scope: str) -> str:
    if scope == EVERYTHING:
        return scope
    if scope.startswith(PROJECT) and scope.removeprefix(PROJECT) in _projects(here):
        return scope
    key = folder_scope(scope)
    if scope.strip() and (Path(scope).is_dir() or pauses.known(here.database, key)):
        return key
    if scope.isprintable() and pauses.known(here.database, scope):
        return scope
    raise NoSuchScope(f"{scope!r} is no folder, and no run was ever asked for in it")


def _projects(here: Installation) -> Collection[str]:
    """A switch must work whatever is in the files: of what cannot be read, there are none."""
    try:
        policy = FilePolicies(here.settings, KeptFilesToRead(here.database, host=here.host)).current()
    except ConfigurationRefused:
        return ()
    return policy.projects.values() if isinstance(policy, Policy) else ()
