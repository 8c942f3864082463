"""Do something to one part of a house; what is not final is undone by `after`."""

import os
import shutil
import signal
import time
from collections.abc import Callable

from tests.fault.house import House, kill
from tests.support.disks import fill_but

STOPPED_SECONDS = 40.0
FULL_SECONDS = 6.0
STANDBY_SECONDS = 10.0
HOUR = 3600


class Fault:
    """`lasts` is how long (seconds) a stopped process stays stopped, or until `ends` undoes what was done; `suspends` the
    promise until then.
    """

    def __init__(
        self,
        strike: Callable[[House, int], None],
        *,
        lasts: float = 0.0,
        suspends: bool = False,
        victim: Callable[[House, int], int] = lambda house, pid: pid,
        ends: Callable[[House], None] | None = None,
    ) -> None:
        self._strike, self.lasts, self.suspends, self._victim = strike, lasts, suspends, victim
        self._end = ends
        self.is_over = lasts == 0

    def strike(self, house: House, pid: int) -> None:
        """`pid` is the worker process that has the run in hand, or any of them."""
        self._stopped = self._victim(house, pid)
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


class FullDisk(Fault):
    """One of the house's small disks is full to the last byte, until somebody makes room."""

    def __init__(self, disk: str) -> None:
        super().__init__(self._fill, lasts=FULL_SECONDS, suspends=True)
        self._disk = disk

    def _fill(self, house: House, pid: int) -> None:
        self._filler = fill_but(house.disks[self._disk], 0)

    def end(self) -> None:
        self.is_over = True
        self._filler.unlink(missing_ok=True)


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
        lambda house, pid: kill(house.gateway.pid, signal.SIGSTOP),
        lasts=STOPPED_SECONDS,
        suspends=True,
        victim=lambda house, pid: house.gateway.pid,
    ),
    "pgbouncer": lambda: Fault(_kill_pooler),
    "standby": lambda: Fault(_demote, lasts=STANDBY_SECONDS, ends=_promote),
    "clock-forward": lambda: Fault(lambda house, pid: house.clock.jump(HOUR)),
    "clock-back": lambda: Fault(lambda house, pid: house.clock.jump(-HOUR)),
    "disk-data": lambda: FullDisk("data"),
    "disk-home": lambda: FullDisk("home"),
    "disk-folder": lambda: FullDisk("repos"),
    "disk-engine": lambda: FullDisk("engine"),
}
