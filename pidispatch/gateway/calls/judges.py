"""Have request bodies judged: easy ones here, all others by processes that do not hold this one up.

Of each run one body is judged at a time, and each that is not easy has a process for itself meanwhile: the kernel shares the
processors out, so that no run's bytes are in another's way.
"""

import contextlib
import fcntl
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import structlog

import pidispatch
from pidispatch.gateway.calls.judging import SIZES, Judged, Question, judge
from pidispatch.gateway.http.http1 import HttpRefused
from pidispatch.gateway.wire.scanning import NotARequest

SMALL = 64 * 1024  # bytes
MOST_MARKS = 8_192  # of what parts a JSON text: so many take a millisecond or two
MOST_PROCESSES = 16
MOST_IDLE = 2
JUDGE_SECONDS = 600.0  # by the clock; of work a process bounds itself
_PIECE = 1024 * 1024
_COMMAND = (sys.executable, "-P", "-c", "from pidispatch.gateway.calls.judging import serve; serve()")
# Neither keys nor settings: what it reads was written by an agent. The package is the same as here, wherever it is.
_ENVIRONMENT = {"PYTHONPATH": str(Path(pidispatch.__file__).parents[1]), "LANG": "C.UTF-8"}

log = structlog.get_logger(__name__)


class Judges:
    """Usable from any number of threads."""

    def __init__(self, *, most: int = MOST_PROCESSES, seconds: float = JUDGE_SECONDS) -> None:
        self._most, self._seconds = most, seconds
        self._changed = threading.Condition()
        self._idle: list[_Process] = []
        self._started = 0
        self._closed = self._is_prepared = False
        self._turns: dict[int, threading.Lock] = {}
        self._waiting: Counter[int] = Counter()

    def judge(self, question: Question, body: bytes) -> Judged:
        """Raises NotARequest, and Refused for a body that nobody could judge: such a one is not sent."""
        with self._turn(question.run_id):
            if len(body) <= SMALL and is_easy(body):
                return judge(question, body)
            return self._elsewhere(question, body)

    def prepare(self) -> None:
        """Have a process ready from now on: one takes most of a second to start."""
        with self._changed:
            self._is_prepared = True
            if self._idle or self._started >= self._most or self._closed:
                return
            self._started += 1
        self._give_back(self._start(), is_whole=True)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for process in idle:
            process.end()

    @contextlib.contextmanager
    def _turn(self, run_id: int) -> Iterator[None]:
        with self._changed:
            turn = self._turns.setdefault(run_id, threading.Lock())
            self._waiting[run_id] += 1
        try:
            with turn:
                yield
        finally:
            with self._changed:
                self._waiting[run_id] -= 1
                if not self._waiting[run_id]:
                    del self._waiting[run_id], self._turns[run_id]

    def _elsewhere(self, question: Question, body: bytes) -> Judged:
        process = self._take()
        if self._is_prepared:
            self.prepare()
        answer: Judged | NotARequest | None = None
        try:
            answer = process.ask(question, body, self._seconds)
        except (OSError, TimeoutError) as error:
            log.warning("gateway.not_judged", run_id=question.run_id, size=len(body), problem=repr(error))
            raise HttpRefused(413, "the body takes too much to be read") from error
        finally:
            self._give_back(process, is_whole=answer is not None)
        if isinstance(answer, NotARequest):
            raise answer
        return answer

    def _take(self) -> "_Process":
        with self._changed:
            # Each run has one at most, so that whoever waits here waits for many runs.
            ready = self._changed.wait_for(
                lambda: self._idle or self._started < self._most or self._closed, self._seconds
            )
            if self._closed or not ready:
                raise HttpRefused(503, "too many bodies are being read")
            if self._idle:
                return self._idle.pop()
            self._started += 1
        return self._start()

    def _start(self) -> "_Process":
        try:
            return _Process()
        except OSError as error:
            with self._changed:
                self._started -= 1
                self._changed.notify_all()
            log.exception("gateway.no_judge")
            raise HttpRefused(503, "the body cannot be read now") from error

    def _give_back(self, process: "_Process", *, is_whole: bool) -> None:
        with self._changed:
            keep = is_whole and not self._closed and len(self._idle) < MOST_IDLE
            if keep:
                self._idle.append(process)
            else:
                self._started -= 1
            self._changed.notify_all()
        if not keep:
            process.end()


def is_easy(body: bytes) -> bool:
    """Whether reading it is a matter of a moment, as far as counting tells."""
    return sum(body.count(mark) for mark in (b'"', b"\\", b"[", b"{")) <= MOST_MARKS


class _Process:
    """One process, which answers one question after the other."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            _COMMAND, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ENVIRONMENT, cwd="/"
        )
        if self._child.stdin is None or self._child.stdout is None:
            raise OSError("a process without its pipes")
        self._asks, self._tells = self._child.stdin.fileno(), self._child.stdout.fileno()
        with contextlib.suppress(OSError):  # a user may have no more room in pipes
            fcntl.fcntl(self._asks, fcntl.F_SETPIPE_SZ, _PIECE)
        os.set_blocking(self._asks, False)
        os.set_blocking(self._tells, False)

    def ask(self, question: Question, body: bytes, seconds: float) -> Judged | NotARequest:
        """Raises OSError, TimeoutError."""
        deadline = time.monotonic() + seconds
        head = pickle.dumps(question)
        for part in (SIZES.pack(len(head), len(body)), head, body):
            self._write(part, deadline)
        size, _ = SIZES.unpack(self._read(SIZES.size, deadline))
        answer = pickle.loads(self._read(size, deadline))  # noqa: S301 - written by our own code
        if not isinstance(answer, Judged | NotARequest):
            raise OSError("an answer of another kind")
        return answer

    def end(self) -> None:
        self._child.kill()
        for end in (self._child.stdin, self._child.stdout):
            if end is not None:
                end.close()
        self._child.wait()

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            _wait(self._asks, select.POLLOUT, deadline)
            view = view[os.write(self._asks, view[:_PIECE]) :]

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            _wait(self._tells, select.POLLIN, deadline)
            piece = os.read(self._tells, size - len(data))
            if not piece:
                raise BrokenPipeError("it has ended")
            data += piece
        return bytes(data)


def _wait(fd: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(fd, event)
    if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
        raise TimeoutError
