"""Judge how much room a file system has left, and which run takes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

GIB = 1024**3

# Of a small file system, and of one that runs out of names (inodes), a share counts.
_WARN_SHARE, _ADMIT_SHARE, _STOP_SHARE = 0.10, 0.05, 0.02
NOISE = 4 * 1024**2  # a fall that says nothing of anybody
_NAME = 4096  # what a name counts as, where names are what is running out


class Room(IntEnum):
    """How a file system stands: with LOW nothing is admitted, with LAST the run that grows is stopped."""

    AMPLE = 0
    SCARCE = 1
    LOW = 2
    LAST = 3


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bytes that must be free, each at most a share of the whole file system: 10 %, 5 % and 2 %."""

    warn: int = 5 * GIB
    admit: int = 2 * GIB
    stop: int = 1 * GIB

    def within(self, size: int) -> tuple[int, int, int]:
        """The three bounds of a file system of `size` bytes."""
        return (
            min(self.warn, int(size * _WARN_SHARE)),
            min(self.admit, int(size * _ADMIT_SHARE)),
            min(self.stop, int(size * _STOP_SHARE)),
        )


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One file system, and what of ours lies there. `free` is what a user that is not root may still write, in bytes.

    `names` and `names_free` count inodes, 0 where there is no bound.
    """

    device: int
    places: tuple[str, ...]
    path: str
    size: int
    free: int
    names: int = 0
    names_free: int = 0

    def soon(self, before: "FileSystem", share: float) -> "FileSystem":
        """How it will stand when `share` of what went since `before` has gone once more; what came back does not count."""
        return replace(
            self,
            free=self.free - int(max(0, before.free - self.free) * share),
            names_free=self.names_free - int(max(0, before.names_free - self.names_free) * share),
        )

    def room(self, bounds: Bounds) -> Room:
        return max(_room(self.free, bounds.within(self.size)), self._room_for_names())

    def _room_for_names(self) -> Room:
        shares = (_WARN_SHARE, _ADMIT_SHARE, _STOP_SHARE)
        return _room(self.names_free, [int(self.names * share) for share in shares])

    def lacks_names(self) -> bool:
        """Whether names are what is running out."""
        return self._room_for_names() is Room.LAST

    def fall_since(self, free: int, names_free: int, *, names: bool) -> int:
        """Bytes that went since there was that much; with `names` those count as well, as 4 KiB each."""
        return max(free - self.free, (names_free - self.names_free) * _NAME if names else 0)

    def in_words(self) -> str:
        """What it is and what is left of it, for people."""
        words = f"{self.free / GIB:,.1f} of {self.size / GIB:,.1f} GiB are free where {', '.join(self.places)} lie"
        if self.names and self.names_free < self.names * _WARN_SHARE:
            words += f", and {self.names_free:,} of {self.names:,} names (inodes)"
        return f"{words} ({self.path})"


def _room(free: int, bounds: Sequence[int]) -> Room:
    return Room(sum(free < bound for bound in bounds))


@dataclass(frozen=True, slots=True)
class Blame:
    """The box to stop, and whether it is known that it was this one."""

    box: str
    known: bool


def blame(fall: int, growths: Mapping[str, int | None]) -> Blame | None:
    """Whom to stop of the boxes that write on a file system whose room fell by `fall` bytes; None when next to nothing went.

    `growths`: how many bytes each is seen to have written meanwhile, None where that cannot be seen; the oldest box comes
    first. Who wrote half of it is known. Not everything that takes room is seen (space that is reserved, names): then it is
    the oldest, and the next one if the room goes on falling.
    """
    if fall <= NOISE or not growths:
        return None
    seen = {box: grown for box, grown in growths.items() if grown is not None}
    most = max(seen, key=lambda box: seen[box], default=None)
    if most is not None and 2 * seen[most] >= fall:
        return Blame(most, known=True)
    oldest = next(iter(growths))
    return Blame(oldest, known=len(growths) == 1 and growths[oldest] is None)
