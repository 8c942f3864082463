"""Build the broker: Redis carries bells only, so nothing is retried, delayed or aged in it."""

from collections.abc import Sequence
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import CurrentMessage, Middleware

from pidispatch.queue.consumer import Trouble, WokenConsumer, wake
from pidispatch.queue.server import NAMESPACE, make_client

STARTS = "runs."  # how the queues of starts begin


class WokenBroker(RedisBroker):
    """A Redis broker whose consumers sleep in BLPOP and wake the moment something is enqueued.

    Of the threads of a worker, all but one take starts: starts that hang leave one for ends.
    """

    deaf = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.trouble = Trouble()

    def hear_no_more(self) -> None:
        """Take no message any more: what is rung from now on is for others. It can still ring."""
        self.deaf = True

    @property
    def consumer_class(self) -> type[WokenConsumer]:
        return WokenConsumer

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> dramatiq.Consumer:
        most = max(1, prefetch - 1) if queue_name.startswith(STARTS) else prefetch
        return super().consume(queue_name, prefetch=most, timeout=timeout)

    def enqueue(self, message: dramatiq.Message[Any], *, delay: int | None = None) -> dramatiq.Message[Any]:
        enqueued = super().enqueue(message, delay=delay)
        wake(self, message.queue_name)
        return enqueued


def make_broker(
    url: str,
    *,
    middleware: Sequence[Middleware] = (),
    namespace: str = NAMESPACE,
    heartbeat_ms: int = 60_000,
    within: float | None = None,
) -> WokenBroker:
    """An explicit middleware list: dramatiq's defaults retry and interrupt, and started one job five times.

    `within` as for `make_client`.
    """
    return WokenBroker(
        client=make_client(url, within=within),
        namespace=namespace,
        middleware=[CurrentMessage(), *middleware],
        maintenance_chance=1_000_000,
        heartbeat_timeout=heartbeat_ms,
    )
