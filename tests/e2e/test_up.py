"""`up` as a whole: one at a time, stopped in order, killed without leaving a server behind, and what waits outlives it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import an_installation
from tests.e2e.installation import KEY, Installation, eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]

WAITS = """
UPDATE run_waits SET conditions = jsonb_build_array(jsonb_build_object('after', cast(:after AS text)), '{"profile": "ready"}'::jsonb),
       next_check_at = now()
WHERE run_id = (SELECT id FROM runs WHERE public_id = :id) RETURNING run_id
"""
HELD = "SELECT r.state, r.admitted_at, w.* FROM runs r JOIN run_waits w ON w.run_id = r.id WHERE r.public_id = :id"
USED = "SELECT coalesce(sum(used), 0)::bigint AS used FROM spend_windows WHERE unit = 'runs' AND period = 'day' AND scope = '*'"


def test_a_second_up_in_the_same_home_says_that_one_runs(installation):
    done = installation.pidispatch("up", check=False)

    assert done.returncode == 1
    assert str(installation.process.pid) in done.stderr


@pytest.fixture(scope="module")
def own() -> Iterator[Installation]:
    """An installation of this file's own, started, which each test leaves running: it is started again more than once."""
    for made in an_installation():
        program = made.root / "ready"
        program.write_text(f'#!/bin/sh\necho "$1" >> {made.root}/asked\nenv > {made.root}/env\nexit 0\n')
        program.chmod(0o755)
        made.environment["PI_WAIT_PROFILES"] = f"ready:{program}"
        made.start()
        yield made


def at_work(own: Installation, name: str) -> tuple[Path, str]:
    folder = own.repository(name)
    answer = own.run(folder, model="gated", wait=False)
    eventually((folder / "waiting").exists, "the agent waits", seconds=60)
    return folder, answer["public_id"]


@pytest.fixture(scope="module")
def held(own: Installation) -> str:
    """A run that waits for an instant, asked for before `own` is started again."""
    instant = datetime.now(UTC) + timedelta(hours=1)
    answer = own.run(own.repository("held"), "--after", instant.isoformat(), wait=False)
    assert (answer["state"], answer["cause"]) == ("held", "wait")
    return str(answer["public_id"])


@pytest.fixture(scope="module")
def stopped(own: Installation, held: str) -> str:
    """The run that was at work when Ctrl-C ended `up`, which has been started again since."""
    _, public_id = at_work(own, "stopped")
    processes = own.processes()

    assert own.stop() == 0

    assert f"stopping {public_id}" in own.lines
    assert not [process for process in processes if _lives(process)]
    own.start()
    return public_id


def test_ctrl_c_names_the_live_run_stops_it_and_leaves_no_process(own: Installation, stopped: str) -> None:
    record = own.record(stopped)
    assert (record["outcome"], record["reason"], record["why"]) == ("policy", "worker-abort", "shutdown")


def test_a_held_run_outlives_a_restart_is_asked_after_and_starts(
    own: Installation, held: str, stopped: str
) -> None:
    instant = datetime.now(UTC) + timedelta(seconds=3)
    assert own.one(HELD, id=held)["state"] == "held"
    own.one(WAITS, id=held, after=instant.isoformat())
    own.ended(held)

    assert own.record(held)["outcome"] == "completed"
    found = own.one(HELD, id=held)
    assert found["admitted_at"] >= instant - timedelta(seconds=1)
    assert (found["checks"], found["last_answer"]) == (1, "go")
    assert (own.root / "asked").read_text() == "local:held\n"
    assert KEY not in (own.root / "env").read_text()
    told = json.loads(own.pidispatch("explain", held, "--json").stdout)
    assert told["wait"]["last_profile"] == "ready"


def test_a_run_goes_on_after_kill_9_of_up_and_the_next_up_finishes_it(own: Installation) -> None:
    used = own.one(USED)["used"]
    folder, public_id = at_work(own, "killed")

    left = own.kill()

    eventually(lambda: not any(_lives(process) for process in left), "no server is left behind", seconds=20)
    assert_finished_by_the_next_up(own, folder, public_id, used)


def test_a_run_goes_on_after_up_has_detached_it_and_the_next_up_finishes_it(own: Installation) -> None:
    if "--detach-runs" not in own.arguments:
        assert own.stop() == 0
        own.start("--detach-runs")
    used = own.one(USED)["used"]
    folder, public_id = at_work(own, "detached")

    assert own.stop() == 0

    assert_finished_by_the_next_up(own, folder, public_id, used)


def assert_finished_by_the_next_up(own: Installation, folder: Path, public_id: str, used: int) -> None:
    (folder / "release").touch()
    eventually((folder / "gated.txt").exists, "the box went on alone", seconds=20)
    own.start("--detach-runs")
    own.ended(public_id)
    record = own.record(public_id)
    assert (record["outcome"], record["attempt"], record["turns"]) == ("completed", 1, 2)
    assert own.one(USED)["used"] == used + 1


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
