"""Let a worker take only as many bells as it has threads."""

import dramatiq
from dramatiq.middleware import Middleware


class PrefetchThreads(Middleware):
    """Stock dramatiq takes twice as many, so that a bell lies behind a busy process while another is idle."""

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:  # noqa: ARG002
        worker.queue_prefetch = worker.worker_threads
