"""Name the places of this host whose room counts, and how much of it there must be."""

from collections.abc import Mapping
from pathlib import Path

from pidispatch.config import Settings
from pidispatch.domain.box.disks import DiskBounds, DiskRoom
from pidispatch.domain.box.sandbox import MIB
from pidispatch.errors import EngineUnavailable
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure

_LARGEST_SESSION = 256 * MIB  # what PI_SESSION_MAX_BYTES=0 means


def disk_bounds(settings: Settings) -> DiskBounds:
    return DiskBounds(settings.disk_warn, settings.disk_admit, settings.disk_stop)


def box_files_of(settings: Settings) -> int:
    """Bytes of a box's outbox and session; a session that is large enough to be kept must fit, and grow."""
    return max(settings.box_files, 2 * (settings.session_max_bytes or _LARGEST_SESSION))


def places_of(settings: Settings, engine: Engine | None = None) -> Mapping[str, str]:
    """Word for people → path. The engine's is left out where nobody asks it, or where it lies on another machine."""
    places = {
        "the home": str(settings.home),
        "the servers' data": str(settings.home / "data"),
        "files of jobs": str(settings.jobs_dir),
        "the run directory": str(settings.run_dir),
    }
    root = None if engine is None else _engine_root(engine)
    return places if root is None else places | {"the Docker engine's data": root}


def _engine_root(engine: Engine) -> str | None:
    try:
        root = engine.remembered("root", lambda api: str(api.info().get("DockerRootDir") or ""))
    except EngineUnavailable:
        return None
    return root if root and Path(root).is_dir() else None


def lacks_room(settings: Settings, engine: Engine, folder: str) -> str | None:
    """Which file system is too full for a run in `folder`, in words; None when none is."""
    bounds = disk_bounds(settings)
    for disk in measure({**places_of(settings, engine), "the folder": folder}):
        if disk.room(bounds) >= DiskRoom.LOW:
            return disk.in_words()
    return None
