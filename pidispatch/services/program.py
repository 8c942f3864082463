"""A program of ours in the supervisor's tree: started, watched, and started again when it dies."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pidispatch.services import child
from pidispatch.services.child import VARIABLE

_LONGEST_PAUSE = 30.0
_STABLE_AFTER = 60.0


@dataclass
class Backoff:
    """Pauses of 1, 2, 4 … 30 s between restarts, short again after a minute of life."""

    failures: int = 0

    def pause(self, lived: float) -> float:
        """Seconds to wait after a death that ended a life of `lived` seconds."""
        self.failures = 1 if lived >= _STABLE_AFTER else self.failures + 1
        return float(min(_LONGEST_PAUSE, 2 ** min(self.failures - 1, 10)))


@dataclass
class Program:
    """`ready` is polled after the first start only; a restarted program proves itself by living.

    With `parent_pipe` the program, and each process it forks, can watch the supervisor (`parentpipe`).
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path
    ready: Callable[[], bool]
    stop_signal: signal.Signals = signal.SIGTERM
    stop_grace: float = 10.0
    restarts: bool = True
    ready_within: float = 60.0
    parent_pipe: int | None = None
    cwd: Path | None = None
    _process: subprocess.Popen[bytes] | None = None
    _started: float = 0.0
    _backoff: Backoff = field(default_factory=Backoff)

    def start(self) -> None:
        """Return when it is ready. Raises ServiceFailed."""
        process = self._launch()
        try:
            child.wait_ready(self.name, process, self.ready, seconds=self.ready_within, log=self.log)
        except BaseException:
            self.stop()
            raise

    def restart(self) -> None:
        """Start it again, without waiting; what the dead one left in its process group is killed first."""
        if self._process is not None:
            child.end(self._process, ())
        self._launch()

    def bury(self) -> float:
        """Ask what a dead program left in its group to end; returns the seconds to wait before a restart."""
        if self._process is not None:
            child.signal_group(self._process, signal.SIGTERM)
        return self._backoff.pause(time.monotonic() - self._started)

    def poll(self) -> int | None:
        """The exit status, None while it lives."""
        return None if self._process is None else child.exit_status(self._process)

    def stop(self) -> None:
        if self._process is not None:
            child.end(self._process, ((self.stop_signal, self.stop_grace),))
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            child.signal_group(self._process, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def _launch(self) -> subprocess.Popen[bytes]:
        env = dict(self.env)
        if self.parent_pipe is not None:
            env[VARIABLE] = str(self.parent_pipe)
        pipes = () if self.parent_pipe is None else (self.parent_pipe,)
        log = child.open_log(self.log)
        try:
            self._process = child.spawn(
                self.argv, env=env, log=log, death_signal=self.stop_signal, cwd=self.cwd, pass_fds=pipes
            )
        finally:
            os.close(log)
        self._started = time.monotonic()
        return self._process
