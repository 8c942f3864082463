"""Let each worker thread open what it will need before its first message."""

from collections.abc import Callable

import dramatiq
import structlog
from dramatiq.middleware import Middleware
from dramatiq.worker import WorkerThread

from pidispatch.errors import PidispatchError

log = structlog.get_logger(__name__)


class WarmThreads(Middleware):
    """`warm` runs in each thread as it starts. What does not answer yet is opened by the first message instead."""

    def __init__(self, warm: Callable[[], object]) -> None:
        self._warm = warm

    def after_worker_thread_boot(self, broker: dramatiq.Broker, thread: WorkerThread) -> None:  # noqa: ARG002
        try:
            self._warm()
        except PidispatchError as error:
            log.warning("not_warm", problem=str(error))
