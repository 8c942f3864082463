"""Start where a disk is full: end the boxes that fill it, free the ballast, and say what is full."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pidispatch.config import Settings
from pidispatch.domain import words
from pidispatch.domain.disks import FileSystem
from pidispatch.domain.sandbox import LABEL_ROLE, LABEL_RUN, MIB, ROLE_JOB
from pidispatch.errors import DiskFull, EngineUnavailable, PidispatchError
from pidispatch.ports import BoxState, Occupants
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure
from pidispatch.services.home import Home

Say = Callable[[str], None]

NEEDED = 64 * MIB  # what servers need to recover and start
_MAKE_ROOM = "remove what is not needed there, then start `pidispatch up` again"


@dataclass(frozen=True, slots=True)
class EndedBox:
    """A box that was ended while no database could say why."""

    run_id: int
    container_id: str


def full_disk(settings: Settings) -> FileSystem | None:
    """The file system of the home, where it is too full for servers to start or to go on."""
    found = measure({"the home and its servers": str(settings.home)})
    return next((disk for disk in found if disk.free < NEEDED or disk.lacks_names()), None)


def make_room(settings: Settings, home: Home, say: Say) -> Sequence[EndedBox]:
    """Before anything is written. Boxes go first, since whoever filled the disk would fill the ballast's room as well.

    Raises DiskFull when there is still too little.
    """
    disk = full_disk(settings)
    if disk is None or home.running_pid():
        return ()
    say(f"full: {disk.in_words()}")
    ended = end_writers(settings, disk, say)
    freed = home.ballast.free()
    if freed:
        say(f"freed the ballast of {freed // MIB:,} MiB to start; nothing is admitted until there is room")
    if not freed and not _takes_a_page(settings.home):
        raise DiskFull(f"{disk.in_words()}, and there is no ballast to free: {_MAKE_ROOM}")
    return ended


def _takes_a_page(home: Path) -> bool:
    """A full disk is no reason to refuse a start that may do; one that takes nothing is."""
    probe = home / ".room"
    try:
        probe.write_bytes(bytes(MIB))
    except FileNotFoundError:
        return True  # a home that is not there yet
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        return False
    finally:
        probe.unlink(missing_ok=True)
    return True


def end_writers(settings: Settings, disk: FileSystem, say: Say) -> Sequence[EndedBox]:
    """End every live box of this installation that may write to `disk`, the oldest first. Which one grew, nobody watched."""
    engine = Engine()
    boxes = DockerBoxes(engine)
    ended = []
    try:
        for box in sorted(boxes.with_label(LABEL_ROLE, ROLE_JOB), key=lambda box: str(box.started_at)):
            run = box.labels.get(LABEL_RUN, "")
            if box.ended or not run.isdecimal() or not _is_ours(box, settings) or not _writes_to(box, disk):
                continue
            boxes.stop(box.container_id, grace=0)
            say(f"ended {box.name}, which may write there")
            ended.append(EndedBox(int(run), box.container_id))
    except EngineUnavailable as error:
        say(f"boxes that may write there go on: {error}")
    except PidispatchError as error:
        say(f"a box that may write there could not be ended: {error}")
    finally:
        engine.close()
    return ended


def say_why(ended: Sequence[EndedBox], occupants: Occupants) -> None:
    """Put into the rows of the runs why their boxes were ended. Raises DatabaseUnavailable."""
    for box in ended:
        run = occupants.occupant(box.run_id)
        if run is not None and run.container_id == box.container_id:
            occupants.request_stop(box.run_id, reason=words.DISK_LOW_SHARED)


def _is_ours(box: BoxState, settings: Settings) -> bool:
    """Its files or its door lie in this home: the label's installation is in the database alone."""
    roots = (settings.jobs_dir, settings.run_dir)
    return any(
        Path(source).is_relative_to(root)
        for source in (*box.reads.values(), *box.writes.values())
        for root in roots
    )


def _writes_to(box: BoxState, disk: FileSystem) -> bool:
    for path in box.writes.values():
        try:
            if Path(path).stat().st_dev == disk.device:
                return True
        except OSError:
            return True  # what cannot be told counts as the worst
    return False
