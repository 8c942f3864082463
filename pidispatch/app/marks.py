"""Join the one-shots in the database with their marks in the operator's file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from pidispatch.app.standing import StandingTriggers
from pidispatch.domain.triggers.oneshot import marked_by_another
from pidispatch.domain.triggers.trigger import Disarmed
from pidispatch.files import MarkedFile
from pidispatch.store.database import Database
from pidispatch.store.runs.oneshots import OneShots
from pidispatch.upkeep.marking import Marking, mark_logged


def mark_keeper(database: Database, path: Path | None, *, host: str) -> Callable[[], None]:
    """What the reconciler does with each look; nothing without a file."""
    if path is None:
        return lambda: None
    return partial(mark_logged, Marking(OneShots(database), MarkedFile(path, host=host)))


def mark_reader(triggers: StandingTriggers) -> Callable[[str, str], Disarmed | None]:
    """What admission asks of a one-shot and a run: the mark in force that holds it back."""
    return lambda key, run: marked_by_another(triggers.current(), key, run)
