"""Ask an operator's check program, bounded in time and in output, and leave nothing of it running."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from pidispatch.ports import CheckEnd
from pidispatch.services import child, execwrap

OUTPUT_MAX = 1024 * 1024
GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.02
_CHUNK = 65_536


class CheckPrograms:
    """Implements `ports.WaitChecks`. `home` is what the programs find as HOME: nothing else of ours reaches them."""

    def __init__(self, *, timeout: float, home: str | None) -> None:
        self._timeout = timeout
        self._environment = {"PATH": child.SERVER_ENVIRONMENT["PATH"], "HOME": home or "/", "LANG": "C.UTF-8"}
        self._broken_off = threading.Event()

    def ask(self, program: str, target: str) -> CheckEnd:
        """The calling thread must live until it is over: the program is killed when that thread ends."""
        if self._broken_off.is_set():
            return CheckEnd(None, broken_off=True)
        if not (Path(program).is_file() and os.access(program, os.X_OK)):
            return CheckEnd(None, problem="it is no file that may be executed")
        try:
            process = self._start(program, target)
        except OSError as error:
            return CheckEnd(None, problem=f"it could not be started: {error.strerror or error}")
        return self._watched(process)

    def break_off(self) -> None:
        self._broken_off.set()

    def _start(self, program: str, target: str) -> subprocess.Popen[bytes]:
        wrapper = (sys.executable, "-I", "-S", execwrap.__file__, str(os.getpid()), str(int(signal.SIGKILL)))
        return subprocess.Popen(
            [*wrapper, "-", "-", "-", program, target],
            env=self._environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def _watched(self, process: subprocess.Popen[bytes]) -> CheckEnd:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        output = _Output(process.stdout.fileno())
        until = time.monotonic() + self._timeout
        problem = None
        while (status := child.exit_status(process)) is None:
            if self._broken_off.is_set():
                break
            if time.monotonic() >= until:
                problem = f"it took longer than {self._timeout:g} s"
                break
            if output.counted > OUTPUT_MAX:
                problem = f"it wrote more than {OUTPUT_MAX:,} bytes"
                break
            output.drain(_POLL_SECONDS)
        _end(process, at_once=self._broken_off.is_set())
        output.drain(0)
        process.stdout.close()
        broken_off = status is None and problem is None
        return CheckEnd(status, output.counted, problem, broken_off=broken_off)


class _Output:
    """What a program writes is counted and thrown away, so that it is not stopped by a full pipe."""

    def __init__(self, descriptor: int) -> None:
        self.counted = 0
        self._descriptor = descriptor
        self._open = True
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def drain(self, seconds: float) -> None:
        """Take at most one chunk, waiting for it at most so long."""
        if not self._open:
            time.sleep(seconds)
        elif self._poll.poll(seconds * 1000):
            found = len(os.read(self._descriptor, _CHUNK))
            self.counted += found
            self._open = found > 0


def _end(process: subprocess.Popen[bytes], *, at_once: bool) -> None:
    """The program and whatever it left in its group; one that has ended is not reaped before, so its group is its own."""
    if not at_once and child.exit_status(process) is None:
        child.signal_group(process, signal.SIGTERM)
        child.wait_until(lambda: child.exit_status(process) is not None, GRACE_SECONDS)
    child.signal_group(process, signal.SIGKILL)
    process.wait()
