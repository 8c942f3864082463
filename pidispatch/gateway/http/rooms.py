"""Bound what one run takes of this process, and what all of them take together."""

import threading
import time
from collections import Counter
from dataclasses import dataclass

import structlog

from pidispatch.gateway.http.http1 import MEBIBYTE, MOST_BODY

TELL_SECONDS = 60.0
# What a run has at any rate, however many others take all the rest.
LEAST_CONNECTIONS = 8
LEAST_TUNNELS = 4
LEAST_BODIES = MOST_BODY
RUN_BODIES = 2 * MOST_BODY  # bytes in the open requests of a run
ALL_BODIES = 512 * MEBIBYTE

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Connections and tunnels at a time, of one run and of all. A tunnel is a connection too."""

    run_connections: int = 128
    all_connections: int = 1024
    run_tunnels: int = 64
    all_tunnels: int = 512


USUAL_LIMITS = Limits()


class Allotment:
    """So many units of `what` for each run and for all. A run that has little is let in even where all is taken.

    So no number of greedy runs keeps another from its calls. Thread-safe; a run at its bound is told of once a minute.
    """

    def __init__(self, what: str, *, each: int, together: int, least: int) -> None:
        self.what, self.each, self.together, self.least = what, each, together, least
        self._lock = threading.Lock()
        self._taken: Counter[int] = Counter()
        self._told: dict[int, float] = {}

    def take(self, run_id: int, amount: int = 1) -> bool:
        with self._lock:
            own = self._taken[run_id] + amount
            fits = own <= self.each and (
                self._taken.total() + amount <= self.together or own <= min(self.least, self.each)
            )
            if fits:
                self._taken[run_id] = own
        if not fits:
            self._tell(run_id, own - amount)
        return fits

    def give(self, run_id: int, amount: int = 1) -> None:
        with self._lock:
            self._taken[run_id] -= amount
            if not self._taken[run_id]:
                del self._taken[run_id]
                self._told.pop(run_id, None)

    def _tell(self, run_id: int, taken: int) -> None:
        now = time.monotonic()
        with self._lock:
            if now - self._told.get(run_id, -TELL_SECONDS) < TELL_SECONDS:
                return
            self._told[run_id] = now
        log.warning(
            "gateway.no_room", what=self.what, run_id=run_id, taken=taken, each=self.each, all=self.together
        )


class Rooms:
    """The rooms of one gateway. Tunnels take at most half of a run's connections: the others are for its calls."""

    def __init__(self, limits: Limits) -> None:
        most, all_ = limits.run_connections, limits.all_connections
        self.connections = Allotment("connections", each=most, together=all_, least=LEAST_CONNECTIONS)
        tunnels = min(limits.run_tunnels, max(most // 2, 1))
        self.tunnels = Allotment("tunnels", each=tunnels, together=limits.all_tunnels, least=LEAST_TUNNELS)
        self.bodies = Allotment("bytes of bodies", each=RUN_BODIES, together=ALL_BODIES, least=LEAST_BODIES)
