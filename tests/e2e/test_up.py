"""`up` as a whole: one at a time, stopped in order, and killed without leaving a server behind."""

import psutil
import pytest

from tests.e2e.installation import eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


def test_a_second_up_in_the_same_home_says_that_one_runs(installation):
    done = installation.pidispatch("up", check=False)

    assert done.returncode == 1
    assert str(installation.process.pid) in done.stderr


def test_ctrl_c_names_the_live_run_stops_it_and_leaves_no_process(fresh):
    fresh.start()
    folder = fresh.repository()
    answer = fresh.run(folder, model="gated", wait=False)
    eventually((folder / "waiting").exists, "the agent waits", seconds=60)
    processes = fresh.processes()

    assert fresh.stop() == 0

    assert f"stopping {answer['public_id']}" in fresh.lines
    assert not [process for process in processes if process.is_running() and process.status() != "zombie"]
    fresh.lines.clear()
    fresh.start()
    record = fresh.record(answer["public_id"])
    assert (record["outcome"], record["reason"], record["why"]) == ("policy", "worker-abort", "shutdown")


@pytest.mark.parametrize("way", ["kill -9", "--detach-runs"])
def test_a_run_goes_on_without_up_and_the_next_up_finishes_it(fresh, way):
    fresh.start(*(["--detach-runs"] if way == "--detach-runs" else []))
    folder = fresh.repository()
    answer = fresh.run(folder, model="gated", wait=False)
    eventually((folder / "waiting").exists, "the agent waits", seconds=60)

    if way == "kill -9":
        left = fresh.kill()
        eventually(
            lambda: not any(_lives(process) for process in left), "no server is left behind", seconds=20
        )
    else:
        assert fresh.stop() == 0
        fresh.lines.clear()
    (folder / "release").touch()
    eventually((folder / "gated.txt").exists, "the box went on alone", seconds=20)
    fresh.start()

    eventually(lambda: fresh.state(answer["public_id"]) == "ended", "the next `up` finishes it", seconds=60)
    record = fresh.record(answer["public_id"])
    assert (record["outcome"], record["attempt"], record["turns"]) == ("completed", 1, 2)
    assert fresh.one("SELECT used FROM spend_windows")["used"] == 1


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
