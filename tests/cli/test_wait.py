"""`run --wait`: the run is shown until it ends, and how it ended is the exit code."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import Outcome
from pidispatch.store.runs.transitions import Runs
from tests.cli.lives import DONE, FAILED, begin, call, end, meanwhile, until_asked
from tests.store.builders import value

ROOT = Path(__file__).parents[2]
OVER = End(Outcome.POLICY, "turn-limit")


@pytest.fixture
def wait(pidispatch, gitbox, folder):
    """Ask for a run in the test's folder and wait for its end."""

    def ask(*arguments):
        return pidispatch("run", str(folder), "--task", "do it", "--wait", *arguments)

    return ask


def a_life(database, verdict=DONE):
    def live():
        until_asked(database)
        time.sleep(0.6)  # the watcher shows the waiting run first
        claim = begin(database)
        call(database, claim, tokens_in=1234)
        time.sleep(1.2)
        end(database, claim, verdict)

    return live


@pytest.mark.parametrize(
    ("verdict", "exit_code", "words"),
    [
        (DONE, 0, "completed after"),
        (OVER, 1, "policy: turn-limit after"),
        (FAILED, 1, "failed: infra (agent-died) after"),
    ],
)
def test_the_end_of_the_run_is_the_exit_code(wait, database, verdict, exit_code, words):
    with meanwhile(a_life(database, verdict)):
        said = wait()

    assert said.code == exit_code
    lines = said.err.splitlines()
    assert lines[0] == "queued · place 1 in line"
    assert lines[-1].startswith("running · 1 turn · 1,244 tokens · ")
    assert words in said.out
    assert "1,244 (1,234 in, 10 out) in 1 call" in said.out


def test_a_program_gets_the_ended_run(wait, database):
    with meanwhile(a_life(database)):
        said = wait("--json")

    assert said.document["run"]["outcome"] == "completed"
    assert said.document["run"]["tokens_total"] == 1244


ON_A_TERMINAL = """
import sys
from pidispatch.entrypoints.cli import main
from pidispatch.runtime.dockerruntime import DockerRuntime
from tests.cli.conftest import FakeGitBox

DockerRuntime.git_box = lambda runtime, installation, environment: FakeGitBox()
main()
"""


def test_a_terminal_gets_one_live_line(pidispatch, folder, database):
    master, slave = pty.openpty()
    command = [sys.executable, "-c", ON_A_TERMINAL, "run", str(folder), "--task", "do it", "--wait"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}

    with meanwhile(a_life(database)):
        process = subprocess.Popen(command, stdout=slave, stderr=slave, stdin=slave, env=environment)
        os.close(slave)
        shown = until_closed(master)

    assert process.wait(10) == 0
    assert "running · 1 turn · 1,244 tokens" in shown
    assert "\x1b[2K" in shown  # the line is drawn over itself
    assert "completed after" in shown


def until_closed(terminal):
    shown = b""
    with contextlib.suppress(OSError):  # how Linux tells that the other side is gone
        while piece := os.read(terminal, 4096):
            shown += piece
    os.close(terminal)
    return shown.decode()


def test_ctrl_c_leaves_the_run_running_and_says_so(wait, database):
    def interrupt():
        until_asked(database)
        begin(database)
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)

    with meanwhile(interrupt):
        said = wait()

    name = value(database, "SELECT public_id FROM runs")
    assert said.code == 1
    assert said.err.endswith(f"{name} goes on without you: pidispatch show {name}\n")
    assert value(database, "SELECT state FROM runs") == "running"
    assert value(database, "SELECT stop_reason IS NULL FROM runs")


def test_a_postgres_that_drops_its_connections_is_waited_for(wait, services, database):
    def live():
        until_asked(database)
        claim = begin(database)
        time.sleep(0.7)
        with services.administrator() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pidispatch cli'"
            )
        end(database, claim)

    with meanwhile(live):
        said = wait()

    assert said.code == 0
    assert "completed after" in said.out


def test_a_run_that_waits_says_why(wait, database):
    def live():
        until_asked(database)
        with database.transaction() as connection:
            connection.exec_driver_sql(
                "UPDATE runs SET state = 'deferred', cause = 'no-gateway', not_before = now() + interval '1 s'"
            )
        time.sleep(1.2)
        claim = begin(database)
        end(database, claim)
        assert Runs(database).facts(claim.run_id).state == "ended"

    with meanwhile(live):
        said = wait()

    assert "deferred: no-gateway · not before 2" in said.err
