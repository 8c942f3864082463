"""Begin a worker's end the moment SIGTERM arrives, and not before its runs allow it."""

import queue
import signal
import threading
from collections.abc import Callable
from types import FrameType

import dramatiq
from dramatiq.middleware import Middleware


class PromptShutdown(Middleware):
    """First in the list: dramatiq's main thread sees a signal up to a second late, and stops its threads in turn.

    `close` ends admission. `wait`, if there is one, returns when the worker may end: until then its threads go on.
    `begin` tells the threads beside the worker to end. A second SIGTERM is dramatiq's own: it exits at once.
    """

    def __init__(
        self,
        *,
        close: Callable[[], None],
        begin: Callable[[], None],
        wait: Callable[[], None] | None = None,
    ) -> None:
        self._close, self._begin, self._wait = close, begin, wait
        self._signals: queue.SimpleQueue[None] = queue.SimpleQueue()  # may be used in a signal handler

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        if threading.current_thread() is not threading.main_thread():
            return  # no process of dramatiq's own: whoever embeds the worker has the signals
        before = signal.getsignal(signal.SIGTERM)

        def hear(number: int, frame: FrameType | None) -> None:
            self._signals.put(None)
            if callable(before):
                before(number, frame)

        signal.signal(signal.SIGTERM, hear)
        threading.Thread(target=self._end_early, args=(worker,), daemon=True).start()

    def before_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        self._close()
        if self._wait is not None:
            self._wait()

    def _end_early(self, worker: dramatiq.Worker) -> None:
        """Everything that takes a moment to end takes the same moment."""
        self._signals.get()
        self._close()
        if self._wait is not None:
            return
        self._begin()
        for thread in (*worker.workers, *worker.consumers.values()):
            thread.stop()
