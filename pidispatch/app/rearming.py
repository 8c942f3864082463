"""Let a one-shot that was used up fire again: its row and its mark in the file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pidispatch.app.firing import VARIABLE, require_one_file
from pidispatch.app.installation import Installation
from pidispatch.app.triggers import LEAST, NoSuchEntry, read_triggers
from pidispatch.domain.triggers.oneshot import is_once
from pidispatch.domain.triggers.trigger import Trigger, Triggers
from pidispatch.errors import CannotRearm, ConfigurationRefused, PidispatchError
from pidispatch.files import MarkedFile
from pidispatch.store.runs.oneshots import OneShots, note_unmarked
from pidispatch.store.triggers.rehearsals import spent_by
from pidispatch.upkeep.marking import Marking

__all__ = ["NoSuchEntry", "NotRearmed", "RearmedOneShot", "rearm"]


class NotRearmed(PidispatchError):
    """The entry was never used up, cannot be, or the run that uses it up goes on."""


@dataclass(frozen=True, slots=True)
class RearmedOneShot:
    """`run` had used it up, None when only a mark in the file said so. `unmarked`: that mark was taken out.

    `still_marked_in` names where a mark stays that holds it back: this file, or another host's.
    """

    key: str
    file: str
    run: str | None
    unmarked: bool
    still_marked_in: str | None = None


def rearm(here: Installation, name: str) -> RearmedOneShot:
    """`name` is an id or a beginning of an identity, as for `triggers show`.

    Raises NoSuchTrigger, NotRearmed, ConfigurationRefused for a file that a worker would refuse, and as
    `Installation.database`.
    """
    settings = here.settings
    path = settings.triggers_file
    if path is None:
        raise ConfigurationRefused([f"{VARIABLE} is not set: name the file, which may hold the mark"])
    require_one_file(settings)
    key, entry = _meant(read_triggers(settings), name, path)
    file, by, database = MarkedFile(path, host=here.host), here.actor, here.database
    spent = spent_by(database, key)
    try:
        found = Marking(OneShots(database), file).rearm(key, by)
    except CannotRearm as error:
        raise _refusal(error, entry, name, path) from error
    if found.run is None and found.unmarked:
        note_unmarked(database, key, by)
    marked_in = None if spent is None or found.unmarked else spent.marked_in
    return RearmedOneShot(
        key, str(path), found.run, found.unmarked, _still_marked(file, path, key, marked_in)
    )


def _meant(triggers: Triggers, name: str, path: Path) -> tuple[str, Trigger | None]:
    """The key, and its entry; a one-shot whose entry is gone answers to its whole key."""
    entries = _answering(triggers, name)
    if len({each.identity for each in entries}) > 1:
        places = ", ".join(f"triggers[{each.index}]" for each in entries)
        raise NoSuchEntry(f"several triggers answer to {name!r}: {places}; give each an id")
    if not entries and not name.isprintable():
        raise NoSuchEntry(f"there is no trigger {name!r} in {path}")
    if not entries:
        return name, None
    entry = next((each for each in entries if is_once(each)), None)
    if entry is None:
        place = f"{path}:{entries[0].line}: triggers[{entries[0].index}]"
        raise NotRearmed(f"{place}: {name} is never used up: it has no on.once")
    return entry.identity, entry


def _answering(triggers: Triggers, name: str) -> Sequence[Trigger]:
    exact = [each for each in triggers.entries if each.identity == name]
    return exact or [
        each
        for each in triggers.entries
        if each.id is None and len(name) >= LEAST and each.identity.startswith(name)
    ]


def _refusal(error: CannotRearm, entry: Trigger | None, name: str, path: Path) -> PidispatchError:
    if error.live is not None:
        live = error.live
        return NotRearmed(
            f"{_shown(entry, name)} is being used up by {live}, which has not ended; wait, or `pidispatch cancel {live}`"
        )
    if entry is None:
        return NoSuchEntry(
            f"there is no trigger {name!r} in {path}, and no one-shot of that key was used up;"
            " `pidispatch triggers` lists them"
        )
    return NotRearmed(f"{_shown(entry, name)} is armed: no run used it up, and no mark in {path} says so")


def _shown(entry: Trigger | None, name: str) -> str:
    return name if entry is None else entry.shown


def _still_marked(file: MarkedFile, path: Path, key: str, marked_in: str | None) -> str | None:
    """The mark of a file that nobody could change now, or that this host has not."""
    triggers = file.current()
    entry = None if triggers is None else triggers.by_id(key)
    if entry is not None and entry.disarmed is not None:
        return str(path)
    if marked_in is None or marked_in == file.place:
        return None
    return f"the triggers file of {marked_in.rpartition(':')[0]}"
