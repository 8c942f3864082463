"""Check the room on this host's file systems, and the ballast that a full one needs."""

from pidispatch.app.installation import home_of
from pidispatch.app.rooms import disk_bounds, places_of
from pidispatch.config import Settings
from pidispatch.domain.box.disks import DiskRoom
from pidispatch.domain.health.checkup import Finding, Grade
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure

MAKE_ROOM = "remove what is not needed there; PIDISPATCH_DISK_WARN and PIDISPATCH_DISK_ADMIT say how much must be free"


def check_disks(settings: Settings, engine: Engine) -> Finding:
    """One finding for all file systems: those that stand worst are told."""
    bounds = disk_bounds(settings)
    disks = measure(places_of(settings, engine))
    worst = max((disk.room(bounds) for disk in disks), default=DiskRoom.AMPLE)
    told = "; ".join(disk.in_words() for disk in disks if disk.room(bounds) is worst)
    match worst:
        case DiskRoom.AMPLE:
            return Finding("disks", Grade.OK, told)
        case DiskRoom.SCARCE:
            return Finding("disks", Grade.WARNING, told, MAKE_ROOM)
        case _:
            return Finding("disks", Grade.FAILED, f"{told}: nothing starts", MAKE_ROOM)


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
