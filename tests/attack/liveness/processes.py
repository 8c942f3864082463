"""Real worker processes, as dramatiq starts them, and what they are given."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from pidispatch.app.up import worker_command
from tests.store.builders import HOST

ROOT = Path(__file__).parents[3]
GENEROUS = 120.0  # seconds that a process may take to start on a busy machine


def an_environment(folder, database_url, redis_url):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(ROOT),
        "PIDISPATCH_HOME": str(folder / "home"),
        "PI_WORKER_NAME": HOST,
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
    }


@contextmanager
def a_worker(folder, database_url, redis_url):
    """One worker process of two threads; its master is what the block gets."""
    command = worker_command(processes=1, threads=2)
    assert command[0] == sys.executable
    with (folder / "worker.log").open("ab") as log:
        master = subprocess.Popen(
            command,
            env=an_environment(folder, database_url, redis_url),
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield master
    finally:
        if master.poll() is None:
            os.killpg(master.pid, 9)
        master.wait()
