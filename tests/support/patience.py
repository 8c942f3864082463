"""Waiting on a machine that may be busy: no test is decided by how fast the clock runs beside it."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LONGER = 10  # a limit that is met soon on a quiet machine; waiting longer costs nothing but a failure's time
WORK = 0.02  # seconds of this process alone, long enough to be interrupted by others
MOST = 40.0


def slowness() -> float:
    """How many times longer than alone something takes on this machine now: 1 on a quiet one."""
    began, used = time.monotonic(), time.process_time()
    while time.process_time() - used < WORK:
        pass
    return min(MOST, max(1.0, (time.monotonic() - began) / WORK)) * 2


def eventually(look: Callable[[], T], *, within: float = 10) -> T:
    """What `look` returns once it is true; the last answer when it stays false far beyond `within` seconds."""
    end = time.monotonic() + LONGER * within
    while not (found := look()) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    """Wait for a fact that others bring about; fails far beyond `seconds`."""
    assert eventually(holds, within=seconds), "it did not become true"
