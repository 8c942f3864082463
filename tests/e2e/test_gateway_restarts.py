"""Real pi while the gateway, and then the worker, is killed under it."""

import threading

import psutil
import pytest

from tests.e2e.conftest import an_installation
from tests.e2e.installation import eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


@pytest.fixture(scope="module")
def own():
    for made in an_installation():
        made.start()
        yield made


@pytest.fixture
def up(own):
    """An installation of this file's own, whose provider stops in the middle of its next answer until `more` is set."""
    own.more, own.speaking, own.before = threading.Event(), threading.Event(), len(own.provider.asked)

    def pace(number):
        if number == 4:
            own.speaking.set()
            own.more.wait(60)

    own.provider.pace = pace
    yield own
    own.more.set()
    own.provider.pace = None


def the_gateway(up):
    """It names itself in its control socket's lock, so its command line is enough here."""
    return next(
        each for each in up.processes() if "pidispatch.entrypoints.gateway" in " ".join(each.cmdline())
    )


def calls(up, run):
    """The states of the run's calls, in the order in which they were opened."""
    statement = "SELECT c.state FROM provider_calls c JOIN runs r ON r.id = c.run_id WHERE r.public_id = :run ORDER BY c.id"
    return [row["state"] for row in up.rows(statement, run=run)]


def begun(up, name):
    folder = up.repository(name)
    answer = up.run(folder, wait=False)
    assert up.speaking.wait(60)
    return folder, answer["public_id"]


def test_a_stream_cut_by_the_gateways_death_costs_one_assumed_call_and_is_asked_again(up):
    folder, run = begun(up, "cut")
    killed = the_gateway(up)

    killed.kill()
    up.more.set()
    eventually(lambda: up.state(run) == "ended", "the run ends", seconds=90)

    record = up.record(run)
    assert (record["outcome"], record["attempt"], record["exit_code"]) == ("completed", 1, 0), record
    assert (folder / "hello.txt").read_text() == "hello pidispatch\n"
    assert calls(up, run) == ["assumed", *["settled"] * 4]
    assert len(up.provider.asked) - up.before == 5
    assert the_gateway(up).pid != killed.pid


def test_the_death_of_every_worker_does_not_touch_a_stream(up):
    _, run = begun(up, "worker")
    gateway = the_gateway(up)
    workers = up.workers()

    for process in workers:
        process.kill()
    psutil.wait_procs(workers, timeout=10)
    up.more.set()
    eventually(lambda: up.state(run) == "ended", "the run ends", seconds=90)

    record = up.record(run)
    assert (record["outcome"], record["attempt"]) == ("completed", 1), record
    assert calls(up, run) == ["settled"] * 4
    assert the_gateway(up).pid == gateway.pid
