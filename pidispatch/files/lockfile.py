"""Take turns on a file with whoever makes `<file>.lock` first: other programs that write it do the same."""

import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from pidispatch.errors import FileInUse

log = structlog.get_logger(__name__)

STALE = 10.0  # seconds; nobody who lives holds it for so long
ATTEMPTS = 5
PAUSE = (0.1, 0.3)  # seconds between two attempts, by chance: two who wait must not meet again

Made = tuple[int, int]
"""Inode and time: a file system gives the number of a removed file to the next one."""


@dataclass(frozen=True, slots=True)
class Held:
    """The lock, as this process made it."""

    path: Path
    made: Made

    def is_ours(self) -> bool:
        """False when somebody took it for stale: then that one may be writing now."""
        return _made(self.path) == self.made


@contextlib.contextmanager
def lock_file(
    path: Path, *, clock: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep
) -> Iterator[Held]:
    """Hold `<path>.lock`. Raises FileInUse when somebody else keeps it, and OSError when it cannot be made."""
    lock = path.with_name(f"{path.name}.lock")
    held = _take(lock, path, clock, sleep)
    try:
        yield held
    finally:
        _release(held)


def _take(lock: Path, path: Path, clock: Callable[[], float], sleep: Callable[[float], None]) -> Held:
    for attempt in range(ATTEMPTS):
        if attempt:
            sleep(random.uniform(*PAUSE))  # noqa: S311 - no secret hangs on it
        held = _make(lock)
        if held is None and _remove_stale(lock, clock()):
            held = _make(lock)
            if held is not None:
                log.warning("triggers_lock_stale_taken", file=path.name)
        if held is not None:
            return held
    raise FileInUse(path)


def _make(lock: Path) -> Held | None:
    """None when it is there: only that means locked, any other error is itself."""
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except FileExistsError:
        return None
    with os.fdopen(descriptor, "wb"):
        return Held(lock, _mark(os.fstat(descriptor)))


def _remove_stale(lock: Path, now: float) -> bool:
    """Moved away before it is looked at once more: what was made since the look is put back."""
    try:
        found = lock.lstat()
    except FileNotFoundError:
        return True
    if now - found.st_mtime <= STALE:
        return False
    aside = lock.with_name(f"{lock.name}.{os.getpid()}-{threading.get_ident()}.stale")
    try:
        lock.rename(aside)
    except FileNotFoundError:
        return True
    stale = _made(aside) == _mark(found)
    if not stale:
        with contextlib.suppress(FileExistsError):
            os.link(aside, lock, follow_symlinks=False)
    aside.unlink(missing_ok=True)
    return stale


def _release(held: Held) -> None:
    try:
        if held.is_ours():
            held.path.unlink()
    except OSError as error:
        log.warning("triggers_lock_stuck", file=held.path.name, problem=error.strerror)


def _made(path: Path) -> Made | None:
    try:
        return _mark(path.lstat())
    except FileNotFoundError:
        return None


def _mark(found: os.stat_result) -> Made:
    return found.st_ino, found.st_mtime_ns
