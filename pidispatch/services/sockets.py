"""Unix sockets: their length limit, and a connection that may fail."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from pidispatch.services.faults import PathTooLong

LIMIT = 107 if sys.platform == "linux" else 103


def require_short(path: Path) -> None:
    """Raises PathTooLong: the kernel would refuse the path, or worse, libraries would cut it."""
    if len(bytes(path)) > LIMIT:
        raise PathTooLong(path, LIMIT)


@contextlib.contextmanager
def connected(path: Path, timeout: float = 2.0) -> Iterator[socket.socket | None]:
    """A connection to `path`, or None when nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(timeout)
        try:
            stream.connect(str(path))
        except OSError:
            yield None
        else:
            yield stream
