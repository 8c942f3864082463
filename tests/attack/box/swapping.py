"""Exchange a folder for something else the moment that somebody opens a file in it."""

import ctypes
import itertools
import os
import select
import threading
from contextlib import contextmanager
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_RENAMEAT2, _AT_FDCWD, _EXCHANGE, _IN_OPEN = 316, -100, 2, 0x20


def exchange(one: Path, other: Path) -> None:
    """Each gets the other's name, at once: `renameat2(RENAME_EXCHANGE)`."""
    names = os.fsencode(one), os.fsencode(other)
    if _libc.syscall(_RENAMEAT2, _AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def when_opened(file: Path, act):
    """Call `act` once, in another thread, as soon as anybody opens `file`; yields an event that says it was done."""
    watch = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert _libc.inotify_add_watch(watch, os.fsencode(file), _IN_OPEN) >= 0
    done, over = threading.Event(), threading.Event()

    def wait():
        while not over.is_set():
            if select.select([watch], [], [], 0.05)[0]:
                act()
                done.set()
                return

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()
        os.close(watch)


@contextmanager
def again_and_again(one: Path, other: Path):
    """Exchange the two for as long as the block lasts; afterwards each has the name it had."""
    over = threading.Event()
    times = itertools.count()

    def hammer():
        while not over.is_set():
            exchange(one, other)
            next(times)
            over.wait(0.0005)

    thread = threading.Thread(target=hammer)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        if next(times) % 2:
            exchange(one, other)
