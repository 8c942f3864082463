"""The storm of kills in its short form, and the arithmetic of its reckoning."""

import subprocess
import sys

import pytest

from pidispatch.runtime.engine import Engine
from tests.fault.blows import Kill, Outage
from tests.fault.engine import Event
from tests.fault.house import ROOT
from tests.fault.reckoning import causes, recovery
from tests.fault.witness import boxes_deny
from tests.support.boxes import image_or_skip
from tests.support.scale import scaled

RUNS, SECONDS = scaled(12, nightly=20), scaled(20, nightly=40)
SPAN = {"first": 90.0, "since": 100.0, "until": 110.0}


def test_an_ending_is_explained_by_a_kill_of_the_right_part_during_the_run():
    gateway, early, worker = Kill(105, "gateway"), Kill(99, "gateway"), Kill(106, "worker")

    assert causes(SPAN, "lost", [early, gateway, worker]) == [gateway]
    assert causes(SPAN, "lost", [early, worker]) == []
    assert causes(SPAN, "cost-cap", [gateway]) == []


def test_a_run_that_took_its_workers_needs_three_of_them():
    kills = [Kill(91, "worker"), Kill(104, "master"), Kill(107, "worker")]

    assert causes(SPAN, "poisoned", kills) == kills
    assert causes(SPAN, "poisoned", kills[:2]) == []


def test_recovery_counts_from_the_first_kill_and_again_when_all_answer():
    first, second = Kill(102, "worker"), Kill(104, "postgres")

    assert recovery(SPAN, [Kill(99, "worker")], []) == 0
    assert recovery(SPAN, [first, second], []) == 8
    assert recovery(SPAN, [first, second], [Outage(104, 107)]) == 3
    assert recovery(SPAN, [first, second], [Outage(104, 111)]) == 8


def test_the_first_box_of_two_must_have_died_or_been_removed_before_the_second_starts():
    def log(*actions):
        return [Event(at, action, box, 1, attempt, None) for at, (action, box, attempt) in enumerate(actions)]

    first, second = ("start", "a", 1), ("start", "b", 2)

    assert list(boxes_deny(log(first, ("die", "a", 1), second), [])) == []
    assert list(boxes_deny(log(first, ("destroy", "a", 1), second), [])) == []
    assert list(boxes_deny(log(first, second, ("die", "a", 1)), [])) == [
        "attempts 1 and 2 had boxes at the same time, after ['start']"
    ]


@pytest.mark.docker
def test_runs_outlive_random_kills():
    image_or_skip(Engine())

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fault.chaos",
            "--runs",
            f"{RUNS}",
            "--minutes",
            f"{SECONDS / 60}",
            "--spare-dockerd",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 lost, 0 doubled, 0 leaked" in done.stdout.splitlines()[-1]
