"""A worker's lock tells of its end, and of nothing else."""

import signal
import subprocess
import sys

import pytest

from pidispatch.domain.runs.reconcile import Departure
from pidispatch.services.faults import ServiceFailed
from pidispatch.services.lifelines import Lifelines
from tests.services.conftest import ROOT

CODE = """
import sys, time
from pathlib import Path
from pidispatch.services.lifelines import Lifelines
line = Lifelines(Path(sys.argv[1]))
line.hold("h1:7:ab/cd")
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def worker(tmp_path):
    command = [sys.executable, "-c", CODE, str(tmp_path / "workers")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_killed_worker_is_gone_at_once_and_a_stopped_one_is_not(tmp_path, worker):
    lines = Lifelines(tmp_path / "workers")
    assert lines.departure("h1:7:ab/cd") is Departure.UNKNOWN

    worker.send_signal(signal.SIGSTOP)
    assert lines.departure("h1:7:ab/cd") is Departure.UNKNOWN

    worker.kill()
    worker.wait()
    assert lines.departure("h1:7:ab/cd") is Departure.DIED


def test_a_worker_that_was_never_here_is_not_said_to_be_gone(tmp_path):
    assert Lifelines(tmp_path / "workers").departure("elsewhere:1:ab") is Departure.UNKNOWN


def test_looking_takes_no_lock_and_no_two_processes_are_one_worker(tmp_path, worker):
    with pytest.raises(ServiceFailed):
        Lifelines(tmp_path / "workers").hold("h1:7:ab/cd")


def test_many_dead_workers_leave_few_files(tmp_path):
    folder = tmp_path / "workers"
    folder.mkdir()
    for number in range(100):
        (folder / f"w{number}").touch()

    Lifelines(folder).hold("me")

    assert len(list(folder.iterdir())) == 65


def test_the_run_directory_is_made_for_us_alone(tmp_path):
    Lifelines(tmp_path / "a" / "run" / "workers").hold("me")

    assert (tmp_path / "a" / "run").stat().st_mode & 0o077 == 0
