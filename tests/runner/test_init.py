"""The box's init: nothing in its namespace stops its clock, and it reaps, passes on and repeats as an init does."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest
from runner.init import OVERDUE, RUNNER_GRACE, time_limit

from tests.runner.conftest import IMAGE

needs_a_namespace = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root makes a pid namespace"
)
LONG = 600.0  # a limit that no test reaches


def in_a_namespace(body, *, limit=LONG):
    """Run `body` as the runner below the init, which is process 1 of a new pid namespace; the user is nobody's."""
    program = f"import contextlib, ctypes, os, resource, signal, sys, time\nsys.path.insert(0, {str(IMAGE)!r})\nfrom runner.init import stand_over\n"
    program += f"os.setgroups([])\nos.setgid(12345)\nos.setuid(12345)\nstand_over({{}}, {limit})\n"
    command = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        sys.executable,
        "-c",
        program + textwrap.dedent(body),
    ]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=False)


def test_the_limit_is_later_than_any_runner_that_does_its_work():
    assert time_limit({"PI_DISPATCH_DEADLINE": "1800"}) > 1800 + 60 + RUNNER_GRACE + 30


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e9", "9" * 30, "١٢"])
def test_a_deadline_that_cannot_be_read_is_no_endless_one(text):
    assert time_limit({"PI_DISPATCH_DEADLINE": text}) == time_limit({}) < 300


@needs_a_namespace
@pytest.mark.parametrize(("body", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 9)", 137), ("", 0)])
def test_it_ends_as_its_runner_ended(body, code):
    assert in_a_namespace(body).returncode == code


@needs_a_namespace
def test_a_runner_that_was_stopped_does_not_stop_the_clock():
    box = in_a_namespace("os.kill(os.getpid(), signal.SIGSTOP)", limit=1.0)

    assert box.returncode == OVERDUE


@needs_a_namespace
def test_what_an_agent_does_to_the_init_does_not_stop_the_clock():
    """As the same user: every signal, bounds on what it may use, the lowest priority, one processor, and a load on it."""
    box = in_a_namespace(
        """
        for number in signal.valid_signals():
            if number not in (signal.SIGTERM, signal.SIGINT):
                os.kill(1, number)
        for name in ("NOFILE", "NPROC", "SIGPENDING", "FSIZE", "AS", "STACK"):
            with contextlib.suppress(AttributeError, OSError):
                resource.prlimit(1, getattr(resource, f"RLIMIT_{name}"), (0, 0))
        os.setpriority(os.PRIO_PROCESS, 1, 19)
        os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(1, {min(os.sched_getaffinity(0))})
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for _ in range(20):
            if os.fork() == 0:
                while True:
                    os.kill(1, signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGSTOP)
        """,
        limit=1.0,
    )

    assert box.returncode == OVERDUE


@needs_a_namespace
def test_an_agent_may_neither_trace_it_nor_read_its_memory():
    box = in_a_namespace(
        """
        traced = ctypes.CDLL(None).ptrace(16, 1, 0, 0)
        try:
            open("/proc/1/mem", "rb")
            opened = True
        except OSError:
            opened = False
        sys.exit(0 if traced == -1 and not opened else 1)
        """
    )

    assert box.returncode == 0


@needs_a_namespace
def test_an_end_is_passed_on_to_the_runner():
    box = in_a_namespace(
        """
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
        os.kill(1, signal.SIGTERM)
        time.sleep(600)
        """
    )

    assert box.returncode == 9


@needs_a_namespace
def test_what_the_runner_leaves_behind_is_reaped_and_dies_with_it():
    box = in_a_namespace(
        """
        if os.fork() == 0:                 # ends, and leaves two orphans
            if os.fork() == 0:
                time.sleep(600)            # `run` waits for whoever holds standard output open
            if os.fork() == 0:
                os._exit(0)                # a zombie of process 1, until that reaps it
            os._exit(0)
        os.wait()
        mine = {"1", str(os.getpid())}
        while len(set(filter(str.isdigit, os.listdir("/proc"))) - mine) != 1:
            time.sleep(0.01)
        """
    )

    assert box.returncode == 0
