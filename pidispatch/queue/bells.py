"""Ring: a message that says only that something is due on a host."""

import dramatiq
from redis.exceptions import RedisError

from pidispatch.errors import QueueUnavailable
from pidispatch.queue.broker import WokenBroker

START = "start"
FINISH = "finish"
LOOK = "look"


def queue_of(host: str) -> str:
    """The one queue of a host: a process that reads two would let long prefetches hold back short ones."""
    return f"runs.{host}"


class RedisBell:
    """Implements `ports.Bell`."""

    def __init__(self, broker: WokenBroker) -> None:
        self._broker = broker

    def ring_start(self, host: str, times: int = 1) -> None:
        for _ in range(times):
            self._ring(host, START)

    def ring_finish(self, host: str, run_id: int) -> None:
        self._ring(host, FINISH, run_id)

    def ring_look(self, host: str) -> None:
        """Say that a reconciler should look now: somebody asked for a stop. Raises QueueUnavailable."""
        self._ring(host, LOOK)

    def pending(self, host: str) -> int:
        try:
            return int(self._broker.client.llen(f"{self._broker.namespace}:{queue_of(host)}"))
        except RedisError as error:
            raise QueueUnavailable(str(error)) from error

    def _ring(self, host: str, actor: str, *args: int) -> None:
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=queue_of(host), actor_name=actor, args=args, kwargs={}, options={}
        )
        try:
            self._broker.enqueue(message)
        except RedisError as error:
            raise QueueUnavailable(str(error)) from error
