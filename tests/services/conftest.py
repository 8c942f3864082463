"""Homes, and children of tests that run pieces of our code as another process or another user."""

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pidispatch.services.account import Account, barrier_on_the_way, server_account
from pidispatch.services.home import Home
from tests.support.patience import LONGER

ROOT = Path(__file__).parents[2]
IDENTITIES = ["as_root", "as_nobody"] if os.geteuid() == 0 else ["as_myself"]


@pytest.fixture
def account() -> Account | None:
    return server_account()


@pytest.fixture
def home(short_directory, account) -> Home:
    home = Home(short_directory / "home", short_directory / "run")
    home.prepare(account)
    return home


@pytest.fixture(params=IDENTITIES)
def start_script(request, short_directory) -> Callable[..., subprocess.Popen[str]]:
    """Start Python code (with the package importable) as root and as an ordinary user; its own directory is argv[1]."""
    started: list[subprocess.Popen[str]] = []
    folder = short_directory / "user"
    folder.mkdir(mode=0o711)
    python, options = sys.executable, {"env": os.environ | {"PYTHONPATH": packages()}}
    if request.param == "as_nobody":
        nobody = server_account("nobody")
        python = python_for(nobody)
        os.chown(folder, nobody.uid, nobody.gid)
        options |= {"user": nobody.uid, "group": nobody.gid, "extra_groups": []}

    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [python, "-c", textwrap.dedent(code), str(folder), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            **options,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def packages() -> str:
    """Where this environment's packages lie."""
    return str(Path(psutil.__file__).parents[1])


def python_for(user: Account) -> str:
    """An interpreter of our version that `user` may run, else skips the test."""
    for needed in (ROOT / "pidispatch" / "x", Path(packages()) / "x"):
        if barrier_on_the_way(needed, user):
            pytest.skip(f"{user.name} cannot reach {needed.parent}")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (Path(sys.executable), Path("/usr/bin") / version, Path("/usr/local/bin") / version):
        if python.exists() and barrier_on_the_way(python, user) is None:
            return str(python)
    pytest.skip(f"{user.name} cannot reach a {version}")


def gone(pid: int) -> bool:
    """A process nobody has reaped yet is gone too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def seconds_until(condition: Callable[[], bool], limit: float) -> float:
    """How long it took; fails the test when it takes longer than `limit`."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < LONGER * limit, f"not so after {limit} s"
        time.sleep(0.02)
    return time.monotonic() - began
