"""Read a small file that must be this user's own: no link is followed, nothing is waited for."""

import os
import stat
from pathlib import Path

from pidispatch.errors import ConfigurationRefused
from pidispatch.files.reading import READ_LIMIT

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_own(path: Path) -> bytes | None:
    """The file, one byte more than a parser takes at most; None when there is none. Raises ConfigurationRefused."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationRefused([f"{path}: cannot be read as a file: {_told(error)}"]) from error
    try:
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                wanted = f"a regular file of user {os.geteuid()} that nobody else may write"
                raise ConfigurationRefused([f"{path}: must be {wanted}"])
            return file.read(READ_LIMIT)
    except OSError as error:
        raise ConfigurationRefused([f"{path}: cannot be read: {_told(error)}"]) from error


def _told(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "its path is not valid"
