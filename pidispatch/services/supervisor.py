"""The process tree of `pidispatch up`: children in order, restarts, and one clean end for all."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Protocol, Self

from pidispatch.services.echo import Echo
from pidispatch.services.program import Program

_TICK_SECONDS = 0.25
_CHORE_SECONDS = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Member(Protocol):
    """A child as the tree sees it; a server or a `Program`."""

    name: str
    log: Path

    def start(self) -> None:
        """Return when it is ready. Raises ServiceFailed."""

    def poll(self) -> int | None:
        """The exit status, None while it lives."""

    def stop(self) -> None:
        """End it and its process group within a bounded time."""

    def kill(self) -> None:
        """Make a `stop` that is under way end at once."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The tree ended because a person or the system said so."""

    by: signal.Signals


@dataclass(frozen=True, slots=True)
class Died:
    """The tree ended because a child that is never restarted died."""

    name: str
    status: int


class StopAsked(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP arrived while the tree was still starting; leaving the `with` stops what runs."""


class Tree:
    """Use as `with Tree(home.logs) as tree:`, from the main thread.

        starting ──run()──▶ watching ──signal, death──▶ stopping
           └────────────signal: StopAsked────────────────▲

    `add` starts a child and waits for it, so the order of the calls is the order of start; leaving the block stops
    the children in reverse. A signal while stopping kills the rest. `echo` gets each new line of the children's
    logs with the child's name before it.
    """

    def __init__(self, logs: Path, *, echo: Callable[[str], None] | None = None) -> None:
        self._logs, self._echo = logs, Echo(echo) if echo else None
        self._members: list[Member] = []
        self._due: dict[str, float] = {}
        self._phase = "starting"
        self._asked: signal.Signals | None = None
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._phase = "stopping"
        for member in reversed(self._members):
            member.stop()
            self._show()
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        for descriptor in (self._read_end, self._write_end, self._wake_read, self._wake_write):
            os.close(descriptor)

    def adopt(self, member: Member) -> None:
        """Start a server (never restarted: its death ends the tree) and wait until it is ready."""
        if self._echo:
            self._echo.follow(member.name, member.log)
        self._members.append(member)
        try:
            member.start()
        finally:
            self._show()

    def add(
        self,
        name: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        ready: Callable[[], bool],
        stop_signal: signal.Signals = signal.SIGTERM,
        stop_grace: float = 10.0,
        restart: bool = True,
        ready_within: float = 60.0,
        cwd: Path | None = None,
    ) -> Program:
        """Start a program of ours and wait until `ready()`. Raises ServiceFailed with the end of its log."""
        program = Program(
            name,
            argv,
            env,
            self._logs / f"{name}.log",
            ready,
            stop_signal,
            stop_grace,
            restart,
            ready_within,
            self._read_end,
            cwd,
        )
        self.adopt(program)
        return program

    def run(self, chore: Callable[[], object] = lambda: None) -> Asked | Died:
        """Watch until asked to end, or until a child that is not restarted dies; do the chore every ten seconds."""
        self._phase = "watching"
        due = time.monotonic()
        while self._asked is None:
            if time.monotonic() >= due:
                chore()
                due = time.monotonic() + _CHORE_SECONDS
            self._show()
            died = self._look_after_all()
            if died is not None:
                return died
            select.select([self._wake_read], [], [], _TICK_SECONDS)
        return Asked(self._asked)

    def _look_after_all(self) -> Died | None:
        for member in self._members:
            status = member.poll()
            if status is None:
                continue
            if not isinstance(member, Program) or not member.restarts:
                return Died(member.name, status)
            self._revive(member, status)
        return None

    def _revive(self, program: Program, status: int) -> None:
        now = time.monotonic()
        if program.name not in self._due:
            pause = program.bury()
            self._due[program.name] = now + pause
            self._say(f"{program.name} ended with {status}; it starts again in {pause:g} s")
        elif now >= self._due[program.name]:
            del self._due[program.name]
            program.restart()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._phase == "stopping" or (self._phase == "starting" and self._asked is not None):
            for member in self._members:
                member.kill()
            return
        self._asked = signal.Signals(number)
        if self._phase == "starting":
            raise StopAsked(self._asked.name)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"!")

    def _say(self, line: str) -> None:
        if self._echo:
            self._echo.say("up", line)

    def _show(self) -> None:
        if self._echo:
            self._echo.show()
