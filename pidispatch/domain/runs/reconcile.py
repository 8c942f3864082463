"""Decide what to do with one occupying run, from its row, its container and the time."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pidispatch.domain.runs.run import Occupant, State

WORKER_SILENT = timedelta(seconds=15)
DROPPED_LIMIT = timedelta(seconds=5)  # between an admission's commit and the thread that takes it in hand
PREPARING_LIMIT = timedelta(minutes=5)
GO_LIMIT = timedelta(seconds=90)
GATEWAY_PATIENCE = timedelta(seconds=20)
STOP_GRACE = 10  # seconds between SIGTERM and SIGKILL
STOP_LIMIT = timedelta(seconds=30)  # a stop that is not confirmed by then is told


class Departure(StrEnum):
    """What is known of a worker process of this host besides its heartbeat."""

    UNKNOWN = "unknown"
    LEFT = "left"  # it was told to end: what it had in hand is not to blame
    DIED = "died"


class Absence(StrEnum):
    """Why no box is to be seen: the engine that made it says so, or none that could know was asked."""

    GONE = "gone"
    UNKNOWN = "unknown"


class Action(StrEnum):
    WAIT = "wait"
    FINISH = "finish"
    STOP = "stop"
    NEVER_STARTED = "never-started"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Box:
    """What the engine says of an attempt's container: it ended, it runs, or it was created only."""

    ended: bool
    running: bool


def act(
    run: Occupant, box: Box | None, now: datetime, *, dropped: bool = False, gone: bool = False
) -> Action:
    """`box` is None when the engine answered that the container does not exist. Never called without an answer.
    `dropped`: the preparer lives, and is no longer at work on the run; `gone`: its process is known to have ended.

    A run whose box has ended is finished, whatever else is true of it. A box without its go belongs to a preparer
    that lives, or is taken back. What is past its deadline, or was asked to stop, is stopped and looked at again.
    """
    if box is not None and box.ended:
        return Action.FINISH
    if run.state is State.FINISHING:
        return Action.FINISH
    left = gone or _left(run, now, dropped=dropped)
    if run.state in {State.ADMITTED, State.PREPARING}:
        return _preparing(run, now, left=left)
    if box is None:
        return Action.LOST if run.go_at is not None else Action.NEVER_STARTED
    if run.stop_reason is not None or run.state is State.STOPPING:
        return Action.STOP
    if run.deadline_at is not None and now >= run.deadline_at:
        return Action.STOP
    return _waits_for_go(run, box, now, left=left)


def _preparing(run: Occupant, now: datetime, *, left: bool) -> Action:
    """A preparer that is silent or too slow loses its claim; its container, if any, is removed with it."""
    if run.stop_reason is not None or left:
        return Action.NEVER_STARTED
    return Action.NEVER_STARTED if now - run.state_since > PREPARING_LIMIT else Action.WAIT


def _waits_for_go(run: Occupant, box: Box, now: datetime, *, left: bool) -> Action:
    if run.go_at is not None:
        return Action.WAIT
    if not box.running:
        created_and_left = left or now - run.state_since > GO_LIMIT
        return Action.NEVER_STARTED if created_and_left else Action.WAIT
    return Action.NEVER_STARTED if now - run.state_since > GO_LIMIT else Action.WAIT


def _left(run: Occupant, now: datetime, *, dropped: bool) -> bool:
    """Nobody is at work on it: its preparer left in order, fell silent, or lives and has dropped it."""
    if run.worker_beat is None or preparer_fell_silent(run, now):
        return True
    return dropped and now - run.state_since > DROPPED_LIMIT


def preparer_fell_silent(run: Occupant, now: datetime) -> bool:
    """It gives no more signs of life, and did not leave in good order either."""
    return run.worker_beat is not None and now - run.worker_beat > WORKER_SILENT


def stop_is_unconfirmed(run: Occupant, now: datetime) -> bool:
    """It goes by when it was asked to stop, whatever its state is called by now."""
    return run.stop_asked_at is not None and now - run.stop_asked_at > STOP_LIMIT


def departure_of(run: Occupant, known: Departure) -> Departure:
    """`known` is what its lifeline says. A worker that left in order takes its row along, wherever it was."""
    if known is Departure.UNKNOWN and run.worker is not None and run.worker_beat is None:
        return Departure.LEFT
    return known
