"""Remove a directory tree that an adversary filled."""

import os
import secrets
from itertools import count, islice
from pathlib import Path

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH = 1000


def erase(parent: Path, name: str) -> None:
    """Remove `name` from `parent`. Follows no link; takes a fixed number of descriptors at any depth.

    A recursive removal (`shutil.rmtree`) ends in RecursionError or EMFILE on a tree some thousand levels
    deep; here each nested directory is first moved up to the top, so nothing is ever deeper than two.
    Raises OSError; FileNotFoundError when there is nothing of that name.
    """
    above = os.open(parent, _OPEN_DIRECTORY)
    try:
        if not _is_directory(name, above):
            os.unlink(name, dir_fd=above)
            return
        top = _open_own(name, above)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=above)
    finally:
        os.close(above)


def _empty(top: int) -> None:
    # Names of an earlier, interrupted removal must not be met again.
    prefix, serial = secrets.token_hex(8), count()
    while batch := _some_names(top):
        for name in batch:
            if _is_directory(name, top):
                _flatten(name, top, prefix, serial)
            else:
                os.unlink(name, dir_fd=top)


def _flatten(name: str, top: int, prefix: str, serial: "count[int]") -> None:
    """Remove one directory of `top`, moving the directories in it up beside it."""
    inner = _open_own(name, top)
    try:
        while batch := _some_names(inner):
            for child in batch:
                if _is_directory(child, inner):
                    os.close(_open_own(child, inner))
                    os.rename(child, f"{prefix}-{next(serial)}", src_dir_fd=inner, dst_dir_fd=top)
                else:
                    os.unlink(child, dir_fd=inner)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=top)


def _some_names(descriptor: int) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry in islice(entries, _BATCH)]


def _is_directory(name: str, parent: int) -> bool:
    facts = os.stat(name, dir_fd=parent, follow_symlinks=False)
    return (facts.st_mode & 0o170000) == 0o040000


def _open_own(name: str, parent: int) -> int:
    """Open a directory, giving its owner (us) the rights to empty it, which the job may have taken away."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.geteuid() != 0:
            # The handle's name in /proc: there is no chmod of a path that surely follows no link.
            Path(f"/proc/self/fd/{handle}").chmod(0o700)
        return os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
    finally:
        os.close(handle)
