"""Show new lines of the children's log files, each with its child's name before it."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_MOST_BYTES = 65_536


@dataclass
class _Place:
    path: Path
    offset: int
    rest: bytes = b""


class Echo:
    """The children write to files, never to us: they outlive a terminal that stops reading."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._places: dict[str, _Place] = {}

    def follow(self, name: str, path: Path) -> None:
        """From now on show what is added to `path`."""
        self._places[name] = _Place(path, path.stat().st_size if path.exists() else 0)

    def say(self, name: str, line: str) -> None:
        # A terminal that went away must not end the servers.
        with contextlib.suppress(OSError):
            self._write(f"{name:<8} | {line}")

    def show(self) -> None:
        """Write the complete lines added since the last call."""
        for name, place in self._places.items():
            for line in _new_lines(place):
                self.say(name, line)


def _new_lines(place: _Place) -> list[str]:
    try:
        with place.path.open("rb") as file:
            size = file.seek(0, 2)
            if size < place.offset:
                # The file was set aside when its child started again.
                place.offset, place.rest = 0, b""
            file.seek(place.offset)
            added = file.read(_MOST_BYTES)
    except OSError:
        return []
    place.offset += len(added)
    *lines, place.rest = (place.rest + added).split(b"\n")
    if len(place.rest) > _MOST_BYTES:
        lines, place.rest = [*lines, place.rest], b""
    return [line.decode(errors="backslashreplace").rstrip("\r") for line in lines]
