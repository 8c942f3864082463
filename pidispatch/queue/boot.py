"""Do what makes this process a worker when it boots as one, and not because somebody imported its actors."""

import sys
from collections.abc import Callable

import dramatiq
import structlog
from dramatiq.middleware import Middleware
from dramatiq.worker import WorkerThread

from pidispatch.errors import PidispatchError


class WarmThreads(Middleware):
    """`warm` runs in each thread as it starts. What does not answer yet is opened by the first message instead."""

    def __init__(self, warm: Callable[[], object]) -> None:
        self._warm = warm

    def after_worker_thread_boot(self, broker: dramatiq.Broker, thread: WorkerThread) -> None:  # noqa: ARG002
        try:
            self._warm()
        except PidispatchError as error:
            log.warning("not_warm", problem=str(error))


class PrefetchThreads(Middleware):
    """Stock dramatiq takes twice as many, so that a bell lies behind a busy process while another is idle."""

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        worker.queue_prefetch = worker.worker_threads


log = structlog.get_logger(__name__)


class AtBoot(Middleware):
    """`register` is done before any thread takes a bell. What it raises ends the process with its exit code and sentence.

    `queue` is the one that the bells of this host are rung in.
    """

    def __init__(self, queue: str, register: Callable[[], None]) -> None:
        self._queue = queue
        self._register = register

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        # Dramatiq logs an error that is raised here and goes on: only an exit stops the boot.
        try:
            self._register()
        except PidispatchError as error:
            print(f"pidispatch worker: {error}", file=sys.stderr)  # noqa: T201 - the log may have no reader yet
            raise SystemExit(error.exit_code) from error
        listens_to = worker.consumer_whitelist
        if listens_to and self._queue not in listens_to:
            log.error(
                "listens_to_no_queue_of_its_host",
                queue=self._queue,
                listens_to=sorted(listens_to),
                way_out=f"start it without -Q, or with -Q {self._queue}: as it is, it starts and finishes no run",
            )
