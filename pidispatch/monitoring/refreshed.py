"""Keep a value that is costly to find, and never let anybody wait long for it."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

T = TypeVar("T")
log = structlog.get_logger(__name__)

FRESH = 1.0  # seconds
PATIENCE = 8.0  # seconds; Prometheus waits 10


class Refreshed(Generic[T]):
    """`find` runs at most once a second and one at a time, in a thread of its own: it may hang, its askers do not."""

    def __init__(self, find: Callable[[], T], *, fresh: float = FRESH, patience: float = PATIENCE) -> None:
        self._find = find
        self._fresh = fresh
        self._patience = patience
        self._changed = threading.Condition()
        self._value: T | None = None
        self._found_at: float | None = None
        self._rounds = 0
        self._looking = False

    def get(self) -> T | None:
        """A value no older than a second, else a new one; None when there was none in time, or finding it broke."""
        with self._changed:
            if self._found_at is not None and time.monotonic() - self._found_at <= self._fresh:
                return self._value
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._look, daemon=True).start()
            before = self._rounds
            done = self._changed.wait_for(lambda: self._rounds > before, self._patience)
            return self._value if done else None

    def _look(self) -> None:
        value: T | None = None
        try:
            value = self._find()
        except Exception:
            log.exception("check_broke")
        with self._changed:
            self._value = value
            self._found_at = time.monotonic()
            self._rounds += 1
            self._looking = False
            self._changed.notify_all()
