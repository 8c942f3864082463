"""Find and end a server that an earlier, killed parent left in our data directory."""

import signal
from collections.abc import Sequence
from pathlib import Path

import psutil

from pidispatch.services.faults import ServiceFailed


def occupant(pid: int, directory: Path, programs: frozenset[str]) -> psutil.Process | None:
    """Process `pid` if it is one of `programs` at work in `directory`: pids are reused after a reboot."""
    try:
        process = psutil.Process(pid)
        if process.name() not in programs or process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process if _works_in(process, directory) else None
    except psutil.NoSuchProcess:
        return None


def _works_in(process: psutil.Process, directory: Path) -> bool:
    try:
        return Path(process.cwd()).samefile(directory)
    except psutil.AccessDenied:
        # A container without CAP_SYS_PTRACE: the command line is readable there.
        return str(directory) in process.cmdline()
    except OSError:
        return False


def end_occupant(process: psutil.Process, name: str, steps: Sequence[tuple[signal.Signals, float]]) -> None:
    """Wait for a server that is already stopping, then ask, then insist; raises ServiceFailed if it stays."""
    for number, seconds in steps:
        try:
            process.send_signal(number)
            process.wait(seconds)
        except psutil.TimeoutExpired:
            continue
        except psutil.NoSuchProcess:
            return
        return
    raise ServiceFailed(name, f"process {process.pid} still uses its data directory and does not end")
