"""Run threads beside a worker: from its boot to its shutdown."""

import threading
import time
from collections.abc import Callable

import dramatiq
import structlog
from dramatiq.middleware import Middleware

log = structlog.get_logger(__name__)

END_SECONDS = 0.5
LAST_SECONDS = 0.5  # what is said at the end may wait for a lock, and the end does not


class BesideTheWorker(Middleware):
    """Each thread gets an event that says stop. A thread is a daemon: the process never waits long for one."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._bodies: list[tuple[Callable[[threading.Event], None], bool]] = []
        self._wakes: list[threading.Event] = []
        self._last: list[Callable[[], None]] = []
        self._awaited: list[threading.Thread] = []

    def add(
        self,
        body: Callable[[threading.Event], None],
        *,
        wake: threading.Event | None = None,
        awaited: bool = True,
    ) -> None:
        """`wake` is set at shutdown too, for a body that sleeps on it. One that is not `awaited` may be cut anywhere."""
        self._bodies.append((body, awaited))
        if wake is not None:
            self._wakes.append(wake)

    def at_end(self, act: Callable[[], None]) -> None:
        self._last.append(act)

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        for body, awaited in self._bodies:
            thread = threading.Thread(target=body, args=(self._stop,), daemon=True)
            thread.start()
            if awaited:
                self._awaited.append(thread)

    def begin_to_end(self) -> None:
        """Tell every body to stop; nothing waits for it here."""
        self._stop.set()
        for wake in self._wakes:
            wake.set()

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        self.begin_to_end()

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        until = time.monotonic() + END_SECONDS
        for thread in self._awaited:
            thread.join(max(0.0, until - time.monotonic()))
        last = threading.Thread(target=self._act, daemon=True)
        last.start()
        last.join(LAST_SECONDS)

    def _act(self) -> None:
        for act in self._last:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - the process ends all the same
                log.warning("not_left_in_order", problem=str(error))
