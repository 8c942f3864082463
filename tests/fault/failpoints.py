"""Hold a process at a named step of a run's life, once, until it is let go or killed; only tests load this."""

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "PIDISPATCH_FAILPOINTS"  # a directory that the harness and the processes share
LONGEST = 120.0


def barrier(folder: Path, step: str) -> None:
    """Stop here if the step is armed. The rename lets one thread of one process claim it, and names the process."""
    try:
        (folder / f"arm.{step}").rename(folder / f"reached.{step}.{os.getpid()}")
    except FileNotFoundError:
        return
    end = time.monotonic() + LONGEST
    while not (folder / f"go.{step}").exists() and time.monotonic() < end:
        time.sleep(0.02)


def hold_after(owner: type, name: str, step: str) -> None:
    """The step is reached when the method has returned something."""

    def held(folder: Path, method: Callable[..., Any], *args: Any, **values: Any) -> Any:
        answer = method(*args, **values)
        if answer:
            barrier(folder, step)
        return answer

    _wrap(owner, name, held)


def hold_before(owner: type, name: str, step: str) -> None:
    """The step is reached when the method is about to run."""

    def held(folder: Path, method: Callable[..., Any], *args: Any, **values: Any) -> Any:
        barrier(folder, step)
        return method(*args, **values)

    _wrap(owner, name, held)


def _wrap(owner: type, name: str, held: Callable[..., Any]) -> None:
    folder = Path(os.environ[VARIABLE])
    method = getattr(owner, name)

    @functools.wraps(method)
    def wrapped(*args: Any, **values: Any) -> Any:
        return held(folder, method, *args, **values)

    setattr(owner, name, wrapped)
