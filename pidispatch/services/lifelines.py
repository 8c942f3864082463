"""Know at once that a worker process of this host is gone: each holds a lock that the kernel lets go with it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from pidispatch.domain.runs.reconcile import Departure
from pidispatch.services.faults import ServiceFailed

MOST_BYTES = 64 * 1024
HERE, LEAVING = (
    0o600,
    0o700,
)  # the mode of a file tells what its worker did not write: that it was told to end


class Lifelines:
    """One file for each worker below `folder`, locked as long as its process lives, and never a process id.

    A stopped process still holds its lock: of such a one the heartbeat tells, later. What a worker writes into its
    file outlives it, so that it is known what it had in hand when it ended.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: int | None = None

    def hold(self, worker: str) -> None:
        """Say that `worker` is this process, until it ends, however it ends."""
        self._folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for folder in (
            self._folder.parent,
            self._folder,
        ):  # the gateway refuses a run directory that others may read
            folder.mkdir(mode=0o700, exist_ok=True)
        self._forget_the_gone()
        self._held = os.open(self._file(worker), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, HERE)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ServiceFailed("worker", f"another process is {worker}") from error

    def leave(self) -> None:
        """Say that this process was told to end: whatever it still has in hand is not to blame for that.

        One system call and no lock, for a signal handler; threads may be writing into the file.
        """
        if self._held is not None:
            with suppress(OSError):
                os.fchmod(self._held, LEAVING)

    def departure(self, worker: str) -> Departure:
        """UNKNOWN for a process that lives, and for one of which nothing can be known here."""
        file = self._file(worker)
        if not _is_free(file):
            return Departure.UNKNOWN
        return Departure.LEFT if _was_leaving(file) else Departure.DIED

    def write(self, text: bytes) -> None:
        """Let this process's file say just this."""
        if self._held is None:
            raise RuntimeError("a worker's file is held before it is written")
        os.pwrite(self._held, text, 0)
        os.ftruncate(self._held, len(text))

    def last_words(self) -> Iterator[bytes]:
        """What the files of workers that ended untold say, where they say anything."""
        for file in self._folder.iterdir() if self._folder.exists() else ():
            with suppress(OSError):  # another process may have forgotten it
                if 0 < file.lstat().st_size <= MOST_BYTES and _is_free(file) and not _was_leaving(file):
                    yield file.read_bytes()

    def _file(self, worker: str) -> Path:
        return self._folder / quote(worker, safe="")

    def _forget_the_gone(self) -> None:
        """All but the newest few: a run may still name one that has just gone."""
        files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[64:]:
            if _is_free(file):
                file.unlink(missing_ok=True)


def _was_leaving(file: Path) -> bool:
    try:
        return bool(file.lstat().st_mode & 0o100)
    except OSError:
        return False


def _is_free(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
