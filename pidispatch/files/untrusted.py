"""Look into a directory that somebody else may write: no link is followed, nothing is waited for."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking: between look and open a file may have become a named pipe, whose opening would wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegular(Exception):
    """There is something else than a regular file under this name, or nothing that can be read."""


class TooLarge(Exception):
    """The file holds more than the reader takes."""


@contextmanager
def directory(name: str | bytes, *, below: int | None = None) -> Iterator[int]:
    """A descriptor of the directory itself, never of one that a link leads to. Raises OSError."""
    descriptor = os.open(name, _DIRECTORY, dir_fd=below)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_regular(name: str | bytes, *, below: int, most: int) -> bytes:
    """The whole file of at most `most` bytes. Raises NotRegular, TooLarge; reads no more than it takes to tell."""
    try:
        # Looked at first, since opening a device can do something.
        if not stat.S_ISREG(os.stat(name, dir_fd=below, follow_symlinks=False).st_mode):
            raise NotRegular
        descriptor = os.open(name, _FILE, dir_fd=below)
    except (OSError, ValueError) as error:
        raise NotRegular from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise NotRegular
        if facts.st_size > most:
            raise TooLarge
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    except OSError as error:
        raise NotRegular from error
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise TooLarge
    return content
