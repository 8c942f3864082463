"""Do something to one part of a house; what is not final is undone by `after`."""

import os
import shutil
import signal
import time
from collections.abc import Callable

from tests.fault.house import House, kill

STOPPED_SECONDS = 40.0
STANDBY_SECONDS = 10.0
HOUR = 3600


class Fault:
    """`lasts` is how long (seconds) a stopped process stays stopped, or until `ends` undoes what was done."""

    def __init__(
        self,
        strike: Callable[[House, int], None],
        *,
        lasts: float = 0.0,
        stops_gateway: bool = False,
        ends: Callable[[House], None] | None = None,
    ) -> None:
        self._strike, self.lasts, self.stops_gateway, self._end = strike, lasts, stops_gateway, ends
        self.is_over = lasts == 0

    def strike(self, house: House, pid: int) -> None:
        """`pid` is the worker process that has the run in hand, or any of them."""
        self._stopped = house.gateway.pid if self.stops_gateway else pid
        self._ends = time.monotonic() + self.lasts
        self._house = house
        self._strike(house, pid)

    def tick(self) -> None:
        """Let a stopped process go on when its time is over; called often."""
        if not self.is_over and time.monotonic() >= self._ends:
            self.end()

    def end(self) -> None:
        self.is_over = True
        if self._end is not None:
            self._end(self._house)
        else:
            kill(self._stopped, signal.SIGCONT)


def _kill_redis(house: House, pid: int) -> None:
    house.valkey.kill()


def _wipe_redis(house: House, pid: int) -> None:
    house.valkey.kill()
    while house.valkey.poll() is None:
        time.sleep(0.01)
    shutil.rmtree(house.valkey.data_dir / "appendonlydir")


def _kill_pooler(house: House, pid: int) -> None:
    assert house.pooler is not None
    house.pooler.kill()


def _demote(house: House, pid: int) -> None:
    """As after a failover whose old primary comes back as a standby under the same address."""
    file = house.postgres.data_dir / "standby.signal"
    file.touch()
    owner = house.postgres.data_dir.stat()
    os.chown(file, owner.st_uid, owner.st_gid)
    house.postgres.kill()


def _promote(house: House) -> None:
    (house.postgres.data_dir / "standby.signal").unlink(missing_ok=True)
    house.postgres.kill()


FAULTS: dict[str, Callable[[], Fault]] = {
    "worker": lambda: Fault(lambda house, pid: kill(pid)),
    "master": lambda: Fault(lambda house, pid: kill(house.worker.pid)),
    "gateway": lambda: Fault(lambda house, pid: kill(house.gateway.pid)),
    "redis": lambda: Fault(_kill_redis),
    "redis-wiped": lambda: Fault(_wipe_redis),
    "postgres": lambda: Fault(lambda house, pid: house.postgres.kill()),
    "dockerd": lambda: Fault(lambda house, pid: house.engine.kill()),
    "dockerd-live": lambda: Fault(lambda house, pid: house.engine.kill()),
    "stop-worker": lambda: Fault(lambda house, pid: kill(pid, signal.SIGSTOP), lasts=STOPPED_SECONDS),
    "stop-gateway": lambda: Fault(
        lambda house, pid: kill(house.gateway.pid, signal.SIGSTOP), lasts=STOPPED_SECONDS, stops_gateway=True
    ),
    "pgbouncer": lambda: Fault(_kill_pooler),
    "standby": lambda: Fault(_demote, lasts=STANDBY_SECONDS, ends=_promote),
    "clock-forward": lambda: Fault(lambda house, pid: house.clock.jump(HOUR)),
    "clock-back": lambda: Fault(lambda house, pid: house.clock.jump(-HOUR)),
}
