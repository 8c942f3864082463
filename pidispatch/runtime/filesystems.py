"""Ask the kernel how much room the file systems have."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pidispatch.domain.disks import FileSystem

PROCESSES = "/proc"  # the kernel's file system of them: /proc/<pid>/root leads to what a process has there


def measure(places: Mapping[str, str]) -> Sequence[FileSystem]:
    """One entry for each file system that holds some of `places` (word for people → path), in their order.

    Of a path that is not there its nearest directory counts, unless it led through a process that has ended. What
    cannot be looked at is left out.
    """
    found: dict[int, FileSystem] = {}
    for word, path in places.items():
        try:
            there = _nearest(Path(path))
            if there.is_relative_to(PROCESSES) and str(there) != path:
                continue
            device, facts = there.stat().st_dev, os.statvfs(there)
        except OSError:
            continue
        earlier = found.get(device)
        found[device] = FileSystem(
            device=device,
            places=(*(earlier.places if earlier else ()), word),
            path=earlier.path if earlier else str(there),
            size=facts.f_blocks * facts.f_frsize,
            free=facts.f_bavail * facts.f_frsize,
            names=facts.f_files,
            names_free=facts.f_favail,
        )
    return list(found.values())


def _nearest(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
