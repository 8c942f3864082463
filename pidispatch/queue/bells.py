"""Ring: a message that says only that something is due on a host."""

import dramatiq
from redis.exceptions import RedisError

from pidispatch.errors import QueueUnavailable
from pidispatch.queue.broker import STARTS, WokenBroker

START = "start"
FINISH = "finish"
LOOK = "look"
FIRST, LAST = 0, 10  # priorities of actors: among what a worker has taken, ends come before starts


def queue_of(host: str) -> str:
    """Where starts are rung for."""
    return STARTS + host


def ends_of(host: str) -> str:
    """Where ends are rung for, and looks: however many starts wait, or hang, an end is next."""
    return f"ends.{host}"


class RedisBell:
    """Implements `ports.Bell`."""

    def __init__(self, broker: WokenBroker) -> None:
        self._broker = broker

    def ring_start(self, host: str, times: int = 1) -> None:
        for _ in range(times):
            self._ring(queue_of(host), START)

    def ring_finish(self, host: str, run_id: int) -> None:
        self._ring(ends_of(host), FINISH, run_id)

    def ring_look(self, host: str) -> None:
        """Say that a reconciler should look now: somebody asked for a stop. Raises QueueUnavailable."""
        self._ring(ends_of(host), LOOK)

    def pending(self, host: str) -> int:
        """How many starts are rung for and not heard yet."""
        try:
            return int(self._broker.client.llen(f"{self._broker.namespace}:{queue_of(host)}"))
        except RedisError as error:
            raise QueueUnavailable(str(error)) from error

    def _ring(self, queue: str, actor: str, *args: int) -> None:
        message: dramatiq.Message[None] = dramatiq.Message(
            queue_name=queue, actor_name=actor, args=args, kwargs={}, options={}
        )
        try:
            self._broker.enqueue(message)
        except RedisError as error:
            raise QueueUnavailable(str(error)) from error
