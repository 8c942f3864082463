"""Note which runs this worker has in hand, so that a run that ends its worker is known for it."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pidispatch.services.lifelines import Lifelines

_LOOK = re.compile(rb"look ([0-9]{1,18}) ([0-9]{1,18})")


class WorkerNotes:
    """Implements `ports.Notes`, in the file that the worker's lifeline holds: one line for each thing in hand.

    Plain writes and no sync: they outlive the process, and after a crash of the whole host no run is to blame.
    """

    def __init__(self, lifelines: Lifelines) -> None:
        self._lifelines = lifelines
        self._lock = threading.Lock()
        self._lines: list[bytes] = []

    @contextmanager
    def looking_at(self, run_id: int, epoch: int) -> Iterator[None]:
        with self._noted(b"look %d %d" % (run_id, epoch)):
            yield

    @contextmanager
    def finishing(self, run_id: int) -> Iterator[None]:
        with self._noted(b"finish %d" % run_id):
            yield

    def lookers_lost(self) -> Sequence[tuple[int, int]]:
        found = (_LOOK.fullmatch(line) for line in self._left_behind())
        return [(int(look[1]), int(look[2])) for look in found if look]

    def finishers_lost(self, run_id: int) -> int:
        """Each worker counts once, however many of its threads had the run."""
        wanted = b"finish %d" % run_id
        return sum(wanted in words.splitlines() for words in self._lifelines.last_words())

    def _left_behind(self) -> Iterator[bytes]:
        for words in self._lifelines.last_words():
            yield from words.splitlines()

    @contextmanager
    def _noted(self, line: bytes) -> Iterator[None]:
        with self._lock:
            self._lines.append(line)
            self._write()
        try:
            yield
        finally:
            with self._lock:
                self._lines.remove(line)
                self._write()

    def _write(self) -> None:
        with suppress(OSError):  # a full run directory must not keep a run from its end
            self._lifelines.write(b"".join(line + b"\n" for line in self._lines))
