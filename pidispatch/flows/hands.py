"""Know which admitted runs are in a living worker's hands, so that one that was dropped is seen at once."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pidispatch.domain.runs.reconcile import Departure


class Hands:
    """`worker` is this process's row. A claim is dropped when its answer got lost, or when giving up could not be written:
    the process lives, so its heartbeat says nothing. `departure` tells of other workers of this host.
    """

    def __init__(self, worker: str, departure: Callable[[str], Departure]) -> None:
        self._worker = worker
        self._departure = departure
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

    def departure(self, worker: str | None) -> Departure:
        """Whether the worker was a process of this host that has ended, and whether it had been told to."""
        return Departure.UNKNOWN if worker is None or worker == self._worker else self._departure(worker)
