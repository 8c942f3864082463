"""A job on stock Dramatiq: its own broker, its own defaults, one worker process, restarted a second after its death."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import dramatiq
import psutil
from dramatiq.brokers.redis import RedisBroker

REDIS, FOLDER = "STOCK_REDIS", "STOCK_FOLDER"
WORK_SECONDS = 5.0

if REDIS in os.environ:  # `dramatiq` loads this module
    dramatiq.set_broker(RedisBroker(url=os.environ[REDIS]))


@dramatiq.actor(queue_name="stock")
def job() -> None:
    folder = Path(os.environ[FOLDER])
    (folder / "started").touch()
    time.sleep(WORK_SECONDS)
    (folder / "finished").touch()


class Stock:
    """`strike` kills the worker process in the middle of the job; `recovered` says when the job has been finished."""

    def __init__(self, redis: str, folder: Path) -> None:
        self._folder = folder
        self._environment = os.environ | {REDIS: redis, FOLDER: str(folder)}
        self._environment["PYTHONPATH"] = str(Path(__file__).parents[1])

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        started = psutil.Process(self._process.pid)
        for process in (started, *started.children(recursive=True)):  # a worker outlives its master
            process.kill()
        self._process.wait()

    def _start(self) -> None:
        command = [sys.executable, "-m", "dramatiq", "sides.stock", "--processes", "1", "--threads", "4"]
        silent = subprocess.DEVNULL
        self._process = subprocess.Popen(command, env=self._environment, stdout=silent, stderr=silent)

    def strike(self) -> float:
        """Returns when the worker process was killed, by the monotonic clock."""
        code = "from sides.stock import job; job.send()"
        subprocess.run([sys.executable, "-c", code], env=self._environment, check=True)
        end = time.monotonic() + 20
        while not (self._folder / "started").exists():
            if time.monotonic() > end:
                raise SystemExit("stock dramatiq did not start the job")
            time.sleep(0.05)
        time.sleep(1)
        for child in psutil.Process(self._process.pid).children():
            child.kill()
        struck = time.monotonic()
        self._process.wait(20)  # its master stops when a child dies
        time.sleep(1)
        self._start()
        return struck

    def recovered(self) -> bool:
        return (self._folder / "finished").exists()
