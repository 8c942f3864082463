"""Know which admitted runs this worker process has in hand, so that one it dropped is seen at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Hands:
    """`worker` is this process's row. A claim is dropped when its answer got lost, or when giving up could not be written:
    the process lives, so its heartbeat says nothing.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._held: set[int] = set()

    @contextmanager
    def holding(self, run_id: int) -> Iterator[None]:
        with self._lock:
            self._held.add(run_id)
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(run_id)

    def dropped(self, run_id: int, worker: str | None) -> bool:
        """Whether the run was admitted by this process, and no thread of it is at work on it."""
        with self._lock:
            return worker == self._worker and run_id not in self._held
