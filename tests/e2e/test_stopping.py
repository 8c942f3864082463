"""Cancel, shutdown and requeue on a whole installation, with boxes that do not want to go."""

import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.e2e.installation import eventually
from tests.support.minutes import early_in_a_minute
from tests.support.patience import slowness

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]

PATIENCE = 5  # seconds for what takes one on a machine with nothing else to do


def boxes(installation):
    label = installation.one("SELECT installation FROM hosts")["installation"]
    listed = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=dev.pidispatch.installation={label}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


def processes_of(box):
    listed = subprocess.run(["docker", "top", box, "-eo", "pid"], capture_output=True, text=True, check=True)
    return [int(line) for line in listed.stdout.split()[1:]]


def at_work(installation, name, model="gated"):
    folder = installation.repository(name)
    answer = installation.run(folder, model=model, wait=False)
    eventually((folder / "waiting").exists, f"the agent in {name} works", seconds=60)
    return folder, answer["public_id"]


def books_balance(installation):
    found = json.loads(installation.pidispatch("doctor", "--json", check=False).stdout)
    return {line["check"]: line["detail"] for line in found["findings"] if line["grade"] == "FAILED"} == {}


def test_a_box_whose_processes_ignore_every_signal_is_gone_within_30_s_of_a_cancel(installation):
    _, public_id = at_work(installation, "stubborn", model="stubborn")
    inside = processes_of(boxes(installation)[0])
    assert len(inside) > 5
    began = time.monotonic()

    done = installation.pidispatch("cancel", public_id)

    assert time.monotonic() - began < 30 * slowness()
    assert f"{public_id} was running and is gone" in done.stdout
    record = installation.record(public_id)
    assert (record["outcome"], record["reason"]) == ("policy", "operator-cancel")
    eventually(lambda: boxes(installation) == [], "no container is left", seconds=5)
    assert not [pid for pid in inside if psutil.pid_exists(pid)]
    counts = installation.one(
        "SELECT (SELECT count(*) FROM reservations WHERE state = 'held') AS held,"
        " (SELECT count(*) FROM provider_calls WHERE state = 'held') AS calls"
    )
    assert counts == {"held": 0, "calls": 0}
    assert books_balance(installation)


def test_a_cancel_is_seen_at_once_and_not_at_the_next_look(installation):
    _, public_id = at_work(installation, "at-once")

    installation.pidispatch("cancel", public_id)

    waited = installation.one(
        "SELECT extract(epoch FROM ended_at - stop_requested_at) AS seconds FROM runs WHERE public_id = :id",
        id=public_id,
    )["seconds"]
    assert waited < 6


def test_cancelling_all_reports_what_is_gone(installation):
    running = [at_work(installation, f"all-{number}")[1] for number in range(2)]
    installation.pidispatch("pause")
    try:
        waiting = installation.run(installation.repository("all-waits"), wait=False)["public_id"]
        done = installation.pidispatch("cancel", "--all", "--json")
    finally:
        installation.pidispatch("resume")

    told = json.loads(done.stdout)
    assert set(told["gone"]) == {*running, waiting}
    assert (told["asked"], told["still_stopping"]) == (3, [])
    for public_id in (*running, waiting):
        assert installation.record(public_id)["reason"] == "operator-cancel"
    eventually(lambda: boxes(installation) == [], "no container is left", seconds=5)


def test_a_run_is_repeated_through_all_gates(installation):
    folder = installation.repository("again")
    first = installation.run(folder)["public_id"]
    early_in_a_minute()

    told = json.loads(installation.pidispatch("requeue", first, "--json").stdout)
    again = json.loads(installation.pidispatch("requeue", first, "--json").stdout)

    assert (told["requeue_of"], told["duplicate"]) == (first, False)
    assert (again["public_id"], again["duplicate"]) == (told["public_id"], True)
    eventually(lambda: installation.state(told["public_id"]) == "ended", "the copy ends", seconds=60)
    assert installation.record(told["public_id"])["attempt"] == 1
    assert f"repeats          {first}" in installation.pidispatch("show", told["public_id"]).stdout


@pytest.fixture
def beside(installation):
    """A worker of the test's own beside that of `up`; `start(option…)` starts it."""
    started = []

    def start(*options):
        process = subprocess.Popen(
            [sys.executable, "-m", "pidispatch", "worker", *options],
            env=installation.environment,
            cwd=installation.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(process)
        eventually(lambda: registered(installation, process.pid), "the worker has registered", seconds=60)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def has_ended(process):
    """Nobody may have reaped it yet."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def registered(installation, master):
    children = {process.pid for process in psutil.Process(master).children()}
    pids = installation.one("SELECT coalesce(array_agg(pid), '{}') AS pids FROM workers")["pids"]
    return bool(children & set(pids))


def test_a_worker_ends_within_two_seconds_and_its_run_goes_on_with_the_next(installation):
    folder, public_id = at_work(installation, "handed-on")
    master = next(process for process in installation.workers() if process.ppid() == installation.process.pid)

    master.send_signal(signal.SIGTERM)
    eventually(lambda: has_ended(master), "it has ended", seconds=2)

    assert installation.state(public_id) == "running"
    assert len(boxes(installation)) == 1
    (folder / "release").touch()
    eventually(lambda: installation.state(public_id) == "ended", "the next worker ends it", seconds=60)
    record = installation.record(public_id)
    assert (record["outcome"], record["attempt"]) == ("completed", 1)


@pytest.mark.parametrize("option", ["--drain", "--stop-runs"])
def test_a_worker_that_waits_ends_after_its_runs(installation, beside, option):
    worker = beside(option)
    folder, public_id = at_work(installation, f"waited-for{option}")

    worker.send_signal(signal.SIGTERM)
    if option == "--drain":
        time.sleep(3)  # the time in which it would have ended
        assert worker.poll() is None
        (folder / "release").touch()
    assert worker.wait(45) is not None

    assert installation.state(public_id) == "ended"
    record = installation.record(public_id)
    expected = {"--drain": ("completed", None), "--stop-runs": ("worker-abort", "shutdown")}
    assert (record["reason"], record["why"]) == expected[option]


def test_a_second_sigterm_ends_a_draining_worker_at_once(installation, beside):
    worker = beside("--drain")
    folder, public_id = at_work(installation, "not-waited-for")
    worker.send_signal(signal.SIGTERM)
    time.sleep(2)
    assert worker.poll() is None

    worker.send_signal(signal.SIGTERM)
    worker.wait(PATIENCE)

    assert installation.state(public_id) == "running"
    (folder / "release").touch()
    eventually(lambda: installation.state(public_id) == "ended", "another worker ends it", seconds=60)
