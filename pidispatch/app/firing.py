"""Start a schedule by hand: its run as it would be at its next instant, now."""

import os
from collections.abc import Callable
from datetime import datetime
from functools import partial

from pidispatch.app.triggers import NoSuchEntry, NotScheduled, read_triggers
from pidispatch.app.triggerzone import host_zone
from pidispatch.config import Settings
from pidispatch.config.environment import beneath
from pidispatch.domain import words
from pidispatch.domain.box.facts import FolderState
from pidispatch.domain.runs.names import manual_run_id
from pidispatch.domain.triggers.arrival import Arrival
from pidispatch.domain.triggers.inforce import ScheduleEntry, Unrunnable, Zone, Zones, standing_of
from pidispatch.errors import ConfigurationRefused, FolderRefused, PidispatchError
from pidispatch.flows.ingest import Ingest, Submitted
from pidispatch.runtime.workspace import open_folder
from pidispatch.upkeep.scheduledruns import ScheduledRuns, beyond

VARIABLE = "PI_TRIGGERS_FILE"


class NotFired(PidispatchError):
    """The entry starts nothing, neither by hand nor at its instants."""


def entry_named(settings: Settings, name: str) -> ScheduleEntry:
    """The schedule of this id in the file as it is.

    Raises NoSuchTrigger, NotScheduled, NotFired, and ConfigurationRefused for a file that a worker would refuse.
    """
    if settings.triggers_file is None:
        raise ConfigurationRefused([f"{VARIABLE} is not set, so there is no schedule to start"])
    require_one_file(settings)
    triggers = read_triggers(settings)
    entry = standing_of(triggers, Zones(Zone(settings.worker_name, host_zone()))).entries.get(name)
    if entry is None:
        other = triggers.by_id(name)
        if other is not None:
            raise NotScheduled(
                f"{name} is no schedule: an event of a forge starts it, and a run by hand has none"
            )
        raise NoSuchEntry(
            f"there is no schedule {name!r} in {settings.triggers_file}; `pidispatch triggers` lists them"
        )
    if asked := beyond(entry.trigger.work):
        keys = ", ".join(f"run.{key}" for key in asked)
        raise NotFired(
            f'{settings.triggers_file}:{entry.trigger.line}: triggers[{entry.trigger.index}] (id "{name}"): {keys} is'
            " not enforced yet, so the entry starts nothing; leave it out to start without"
        )
    return entry


class ByHand:
    """Raises FolderRefused, EngineUnavailable, ImageMissing, DatabaseUnavailable; then nothing is left."""

    def __init__(self, host: str, ingest: Ingest, *, clock: Callable[[], datetime]) -> None:
        self._open_folder = partial(open_folder, worker_uid=os.geteuid())
        self._runs = ScheduledRuns(host=host, open_folder=self._open_folder)
        self._ingest = ingest
        self._clock = clock

    def fire(self, entry: ScheduleEntry) -> Submitted:
        """Changes in the folder are no fault: at its instants they are none either. Raises NotFired too."""
        public_id = manual_run_id(entry.id, self._clock())
        work = entry.trigger.work
        try:
            folder = self._open_folder((work.folder or "").encode(errors="surrogateescape"))
        except UnicodeEncodeError:
            raise FolderRefused(words.LOCAL_FOLDER_MISSING, f"{work.folder!r} can be no folder") from None

        def make(state: FolderState) -> Arrival:
            made = self._runs.by_hand(entry, public_id, state.head)
            if isinstance(made, Unrunnable):
                raise NotFired(f"the entry {entry.id} starts nothing: {made.reason}")
            return made

        return self._ingest.take_in(public_id, folder, make, image=work.ask.image, force=True)


def require_one_file(settings: Settings) -> None:
    """Raises ConfigurationRefused: a worker may have been started with the other of two files."""
    other = beneath(VARIABLE)
    if other is not None and other != str(settings.triggers_file):
        problem = (
            f"{VARIABLE} is {settings.triggers_file} in the environment and {other} in the .env beneath it: a worker may"
            " have either; let both say the same"
        )
        raise ConfigurationRefused([problem])
