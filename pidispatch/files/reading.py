"""Read a small file whole, with a mark that tells whether it changed since."""

import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pidispatch.errors import ConfigurationRefused

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_own(path: Path) -> bytes | None:
    """The file, one byte more than a parser takes at most; None when there is none. Raises ConfigurationRefused."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationRefused([f"{path}: cannot be read as a file: {_why_not(error)}"]) from error
    try:
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                wanted = f"a regular file of user {os.geteuid()} that nobody else may write"
                raise ConfigurationRefused([f"{path}: must be {wanted}"])
            return file.read(READ_LIMIT)
    except OSError as error:
        raise ConfigurationRefused([f"{path}: cannot be read: {_why_not(error)}"]) from error


def _why_not(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "its path is not valid"


READ_LIMIT = 1024 * 1024 + 1  # one byte more than a parser accepts, so that it can say so
# A file written twice within one tick of its file system's clock looks the same; until then it is read each time.
_SETTLED_SECONDS = 2.0

Mark = tuple[int, int, int, int, int] | None
"""Device, inode, size, modified, changed; None for no file."""


@dataclass(frozen=True, slots=True)
class Content:
    """What was read; `data` is None when there is no file. Only a settled mark proves that nothing changed."""

    data: bytes | None
    mark: Mark
    settled: bool


def mark_of(path: Path) -> Mark:
    """The mark of the file now. Raises ConfigurationRefused when it cannot be told."""
    try:
        return _mark(path.stat())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def read(path: Path) -> Content:
    """The file now; a missing one is content as well. Raises ConfigurationRefused for what cannot be read."""
    try:
        # Non-blocking, since opening a named pipe would wait for a writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return Content(None, None, settled=True)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise ConfigurationRefused([f"{path}: is not a regular file"])
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(READ_LIMIT)
        after = os.fstat(descriptor)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    age = time.time() - max(after.st_mtime, after.st_ctime)
    settled = _mark(before) == _mark(after) and age > _SETTLED_SECONDS
    return Content(data, _mark(after), settled=settled)


def place_of(paths: Sequence[Path]) -> str:
    """The files by their absolute paths, one a line, as text that every database takes."""
    written = "\n".join(os.path.abspath(path) for path in paths)  # noqa: PTH100 - links stay
    return written.encode("utf-8", "backslashreplace").decode()


def _mark(found: os.stat_result) -> Mark:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _unreadable(path: Path, error: OSError | ValueError) -> ConfigurationRefused:
    told = error.strerror if isinstance(error, OSError) and error.strerror else "its path is not valid"
    return ConfigurationRefused([f"{path}: cannot be read: {told}"])
