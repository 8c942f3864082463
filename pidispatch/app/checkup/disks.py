"""Check the room on this host's file systems, and the ballast that a full one needs."""

from collections.abc import Iterator

from pidispatch.app.places import home_of
from pidispatch.app.rooms import disk_bounds, places_of
from pidispatch.config import Settings
from pidispatch.domain.checkup import Finding, Grade
from pidispatch.domain.disks import Room
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure

MAKE_ROOM = "remove what is not needed there; PIDISPATCH_DISK_WARN and PIDISPATCH_DISK_ADMIT say how much must be free"


def check_disks(settings: Settings, engine: Engine) -> Iterator[Finding]:
    bounds = disk_bounds(settings)
    for disk in measure(places_of(settings, engine)):
        match disk.room(bounds):
            case Room.AMPLE:
                yield Finding("disk", Grade.OK, disk.in_words())
            case Room.SCARCE:
                yield Finding("disk", Grade.WARNING, disk.in_words(), MAKE_ROOM)
            case _:
                yield Finding("disk", Grade.FAILED, f"{disk.in_words()}: nothing starts", MAKE_ROOM)


def check_ballast(settings: Settings) -> Finding:
    """Only `up` makes one, so only a home that it has prepared is judged."""
    home = home_of(settings)
    if settings.ballast == 0 or not home.lock_file.exists():
        return Finding("ballast", Grade.OK, "none is kept")
    if home.ballast.size() >= settings.ballast:
        return Finding("ballast", Grade.OK, f"{home.ballast.path} can be freed for a start on a full disk")
    return Finding(
        "ballast",
        Grade.WARNING,
        f"{home.ballast.path} is smaller than PIDISPATCH_BALLAST: `up` may not start on a full disk",
        "make room: `pidispatch up` makes it again when there is some",
    )
