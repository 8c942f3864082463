"""Kill randomly chosen parts of a house, and remember when."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.fault.engine import PrivateEngine
from tests.fault.faults import FAULTS
from tests.fault.house import House

PARTS = ("worker", "master", "gateway", "redis", "redis-wiped", "postgres")
ENGINES = ("dockerd", "dockerd-live")
PAUSE = (2.0, 8.0)  # seconds between two blows
BOTH = 0.2  # how often two parts are struck at once


@dataclass(frozen=True, slots=True)
class Kill:
    """`at` is wall time, as in the rows and in the engine's log."""

    at: float
    victim: str


@dataclass(frozen=True, slots=True)
class Outage:
    """Postgres or Docker did not answer; `until` is when both did again."""

    since: float
    until: float


class Blows:
    """`tick` often. `kills` and `outages` are for whoever judges afterwards."""

    def __init__(self, house: House, dice: random.Random) -> None:
        self._house, self._dice = house, dice
        self._private = isinstance(house.engine, PrivateEngine)
        self._next = time.monotonic() + dice.uniform(*PAUSE)
        self._silent_since: float | None = None
        self.kills: list[Kill] = []
        self.outages: list[Outage] = []

    @property
    def answering(self) -> bool:
        """Whether Postgres and Docker answered at the last look."""
        return self._silent_since is None

    def tick(self, *, strike: bool = True) -> None:
        """Supervise, look who answers, and strike when it is time."""
        self._house.tick()
        self._look()
        if strike and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._dice.uniform(*PAUSE)
            for victim in self._chosen():
                self._strike(victim)

    def _look(self) -> None:
        if not self._house.answering():
            self._silent_since = self._silent_since or time.time()
        elif self._silent_since is not None:
            self.outages.append(Outage(self._silent_since, time.time()))
            self._silent_since = None

    def _chosen(self) -> Sequence[str]:
        """Only what lives can be killed; a part that is down waits for its supervisor."""
        parts = [name for name in (*PARTS, *(ENGINES if self._private else ())) if self._lives(name)]
        return self._dice.sample(parts, min(len(parts), 2 if self._dice.random() < BOTH else 1))

    def _lives(self, victim: str) -> bool:
        house = self._house
        if victim == "worker":
            return bool(house.worker_processes())
        parts: dict[str, Callable[[], int | None]] = {
            "master": house.worker.poll,
            "gateway": house.gateway.poll,
            "redis": house.valkey.poll,
            "postgres": house.postgres.poll,
        }
        return parts.get(victim.partition("-")[0], house.engine.poll)() is None

    def _strike(self, victim: str) -> None:
        if not self._lives(victim):  # the first of two took it along
            return
        house = self._house
        if isinstance(house.engine, PrivateEngine) and victim in ENGINES:
            house.engine.live_restore = victim == "dockerd-live"
        pids = [process.pid for process in house.worker_processes()]
        self.kills.append(Kill(time.time(), victim))
        FAULTS[victim]().strike(house, self._dice.choice(pids) if pids else 0)
        if victim in {"postgres", *ENGINES} and self._silent_since is None:
            self._silent_since = time.time()
