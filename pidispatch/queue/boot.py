"""Do what makes this process a worker when it boots as one, and not because somebody imported its actors."""

import sys
from collections.abc import Callable

import dramatiq
import structlog
from dramatiq.middleware import Middleware
from dramatiq.worker import WorkerThread

from pidispatch.errors import ConfigurationRefused, PidispatchError


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

    `starts` and `ends` are the queues that the bells of this host are rung in.
    """

    def __init__(self, starts: str, ends: str, register: Callable[[], None]) -> None:
        self._starts, self._ends = starts, ends
        self._register = register

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        # Dramatiq logs an error that is raised here and goes on: only an exit stops the boot.
        listens_to = worker.consumer_whitelist
        try:
            if listens_to and self._starts in listens_to and self._ends not in listens_to:
                raise ConfigurationRefused([f"it would start runs and end none: add -Q {self._ends}"])
            self._register()
        except PidispatchError as error:
            print(f"pidispatch worker: {error}", file=sys.stderr)  # noqa: T201 - the log may have no reader yet
            raise SystemExit(error.exit_code) from error
        missing = [queue for queue in (self._starts, self._ends) if listens_to and queue not in listens_to]
        if listens_to and missing:
            log.error(
                "listens_to_no_queue_of_its_host",
                missing=missing,
                listens_to=sorted(listens_to),
                way_out=f"start it without -Q, or with -Q {' '.join(missing)}: as it is, it does not do that work",
            )
