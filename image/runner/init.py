"""Be the box's init: reap what is left behind, pass an end on to the runner, and end the box when its time is over.

Nothing inside a pid namespace can kill, stop or trace its process 1, whatever its user. So an agent that stops the
runner, or keeps it from running, does not stop this clock; and it needs nothing outside of the box. When process 1
ends, the kernel kills all that is left in the box.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping

from .gate import GO_SECONDS, REPORT_SECONDS
from .process import hide_from_same_user

OVERDUE = 98  # the exit code of a box that was ended here
RUNNER_GRACE = 60.0  # what the runner grants pi beyond its deadline
_LEEWAY = 30.0  # for the runner to end pi and to say so
_PASSED_ON = frozenset({signal.SIGTERM, signal.SIGINT})


def time_limit(env: Mapping[str, str]) -> float:
    """Seconds from the start of the box: later than any runner that does its work needs.

    Without a deadline that can be read the runner ends at once, so only its own bounds count.
    """
    text = env.get("PI_DISPATCH_DEADLINE", "")
    deadline = int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else 0
    return deadline + GO_SECONDS + RUNNER_GRACE + REPORT_SECONDS + _LEEWAY


def stand_over(env: Mapping[str, str], limit: float | None = None) -> None:
    """Fork: return in the child, which is the runner; never return in process 1."""
    hide_from_same_user()
    end = time.monotonic() + (time_limit(env) if limit is None else limit)
    awaited = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    runner = os.fork()
    if runner == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    code = OVERDUE
    try:
        code = _watch(runner, end, awaited)
    finally:
        os._exit(code)


def _watch(runner: int, end: float, awaited: set[signal.Signals]) -> int:
    """The runner's exit code, or OVERDUE. The clock is looked at before each wait: a flood of signals stops nothing."""
    while (left := end - time.monotonic()) > 0:
        code = _reap(runner)
        if code is not None:
            return code
        got = signal.sigtimedwait(awaited, left)
        if got is not None and got.si_signo in _PASSED_ON:
            os.kill(runner, got.si_signo)
    return OVERDUE


def _reap(runner: int) -> int | None:
    """Take every process that has ended; the runner's code as a shell tells it, None while it lives."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == runner:
            ended = os.waitstatus_to_exitcode(status)
            code = ended if ended >= 0 else 128 - ended
