"""End a worker the moment SIGTERM arrives, and not before its runs allow it."""

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import dramatiq
from dramatiq.middleware import Middleware

from pidispatch.queue.lastlog import outlive_this_process

LOOK_MS = 500  # how long a thread of dramatiq's sleeps before it looks whether it should end
UNDER_WAY_MS = 500  # for an actor under way; what is cut is fenced, and the next worker goes on with it


class PromptShutdown(Middleware):
    """First in the list of middleware.

    dramatiq's main thread sees a signal up to a second late, then stops workers and consumers in turn, a second each.
    Here the handler itself ends them, together. What was given to `at_first` is done before anything is waited for.
    `wait`, if there is one, returns when the worker may end: until then its threads go on. `begin` tells the threads beside the worker to end. A second SIGTERM is
    dramatiq's own: it exits at once.
    """

    def __init__(
        self,
        *,
        begin: Callable[[], None],
        wait: Callable[[], None] | None = None,
    ) -> None:
        self._begin, self._wait = begin, wait
        self._first: list[Callable[[], None]] = []

    def at_first(self, act: Callable[[], None]) -> None:
        """`act` runs in a signal handler: it must take no lock, and return at once."""
        self._first.append(act)

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        worker.worker_timeout = LOOK_MS

    def after_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # no process of dramatiq's own: whoever embeds the worker has the signals
        for number in (signal.SIGTERM, signal.SIGHUP):  # SIGHUP: dramatiq starts the worker anew
            signal.signal(number, self._ending(broker, worker, signal.getsignal(number)))

    def _ending(
        self, broker: dramatiq.Broker, worker: dramatiq.Worker, before: object
    ) -> Callable[[int, FrameType | None], None]:
        def end(number: int, frame: FrameType | None) -> None:
            if callable(before):
                before(number, frame)
            self._end(broker, worker)
            outlive_this_process()
            sys.exit(0)

        return end

    def _end(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        for act in self._first:
            act()
        if self._wait is not None:
            self._wait()
        self._begin()
        for thread in worker.workers:
            thread.stop()
        for consumer in worker.consumers.values():
            consumer.stop()
        worker.stop(timeout=UNDER_WAY_MS)
        broker.close()
