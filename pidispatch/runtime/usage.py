"""Measure what a box takes of the host's disks: what lies in a directory of its own, and what its processes wrote."""

import os
from pathlib import Path

from pidispatch.runtime.filesystems import PROCESSES

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK = 512  # what st_blocks counts in
_DEEPEST = 64


def bytes_below(place: Path, *, most_names: int) -> int | None:
    """Bytes that the tree at `place` takes on its disk; None when it cannot be measured.

    No link is followed. A directory that may not be listed, more than `most_names` names, or more than 64 levels
    cannot be measured.
    """
    try:
        top = os.open(place, _OPEN)
    except OSError:
        return None
    budget = [most_names]
    try:
        return _bytes_in(top, budget, depth=0)
    finally:
        os.close(top)


def _bytes_in(directory: int, budget: list[int], *, depth: int) -> int | None:
    total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                budget[0] -= 1
                if budget[0] < 0:
                    return None
                size = _bytes_of(entry.name, directory, budget, depth=depth)
                if size is None:
                    return None
                total += size
    except OSError:
        return None
    return total


def _bytes_of(name: str, parent: int, budget: list[int], *, depth: int) -> int | None:
    try:
        facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return 0  # gone meanwhile
    own = facts.st_blocks * _BLOCK
    if (facts.st_mode & 0o170000) != 0o040000:
        return own
    if depth >= _DEEPEST:
        return None
    try:
        inner = os.open(name, _OPEN, dir_fd=parent)
    except FileNotFoundError:
        return 0
    except OSError:
        return None
    try:
        below = _bytes_in(inner, budget, depth=depth + 1)
    finally:
        os.close(inner)
    return None if below is None else own + below


def written_by(container_id: str) -> int | None:
    """Bytes that all processes of a running container ever wrote towards a disk; None when that cannot be known.

    The kernel counts a process that was waited for with the one that waited, so process 1 of the box keeps what its
    orphans wrote. A tmpfs counts nothing, nor does space that is only reserved (Documentation/filesystems/proc.rst,
    `write_bytes`). A container's processes are those of its control group, whose name holds its id.
    """
    if os.geteuid() != 0:
        return None  # of some processes the kernel would tell, and a part is no answer
    try:
        counts = [_written(entry) for entry in Path(PROCESSES).iterdir() if _is_of(entry, container_id)]
    except (OSError, ValueError, KeyError):
        return None
    return sum(counts) if counts else None


def _is_of(process: Path, container_id: str) -> bool:
    if not process.name.isdecimal():
        return False
    try:
        return container_id in (process / "cgroup").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _written(process: Path) -> int:
    try:
        said = (process / "io").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it ended, and whoever waited for it has its count
    told = dict(line.split(": ") for line in said.splitlines())
    return int(told["write_bytes"]) - int(told["cancelled_write_bytes"])
