"""Run threads beside a worker: from its boot to its shutdown."""

import threading
from collections.abc import Callable

import dramatiq
import structlog
from dramatiq.middleware import Middleware

log = structlog.get_logger(__name__)

END_SECONDS = 2.0


class BesideTheWorker(Middleware):
    """Each thread gets an event that says stop. A thread is a daemon: the process never waits long for one."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._bodies: list[Callable[[threading.Event], None]] = []
        self._wakes: list[threading.Event] = []
        self._last: list[Callable[[], None]] = []
        self._threads: list[threading.Thread] = []

    def add(self, body: Callable[[threading.Event], None], *, wake: threading.Event | None = None) -> None:
        """`wake` is set at shutdown too, for a body that sleeps on it."""
        self._bodies.append(body)
        if wake is not None:
            self._wakes.append(wake)

    def at_end(self, act: Callable[[], None]) -> None:
        self._last.append(act)

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        for body in self._bodies:
            thread = threading.Thread(target=body, args=(self._stop,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        self._stop.set()
        for wake in self._wakes:
            wake.set()

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        for thread in self._threads:
            thread.join(END_SECONDS / max(1, len(self._threads)))
        for act in self._last:
            try:
                act()
            except Exception as error:  # noqa: BLE001 - the process ends all the same
                log.warning("not_left_in_order", problem=str(error))
