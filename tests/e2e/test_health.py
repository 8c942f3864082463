"""A running installation answers for its health, and turns red when something is wrong with it."""

import json
import os
import signal
import socket
import urllib.error
import urllib.request

import psutil
import pytest

from tests.e2e.installation import eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


def ask(address, page):
    try:
        with urllib.request.urlopen(f"http://{address}{page}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
    except OSError:
        return 0, ""


def words(body):
    return [fault["word"] for fault in json.loads(body)["faults"]]


@pytest.fixture
def address(fresh):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    fresh.environment["PIDISPATCH_HEALTH"] = address
    fresh.start()
    eventually(lambda: ask(address, "/healthz")[0] == 200, "it is well")
    return address


def test_it_is_well_until_its_schema_is_another_s_and_then_again(fresh, address):
    status, metrics = ask(address, "/metrics")
    assert status == 200
    assert "pidispatch_healthy 1.0\n" in metrics
    assert 'pidispatch_window_cap_runs{period="day",scope="*"} 1000.0' in metrics
    assert fresh.pidispatch("status", "--check").returncode == 0
    found = fresh.one("UPDATE alembic_version SET version_num = '9999' RETURNING version_num")
    assert found == {"version_num": "9999"}

    eventually(lambda: ask(address, "/healthz")[0] == 503, "another schema is red")

    assert words(ask(address, "/healthz")[1]) == ["schema-differs"]
    wanted = fresh.pidispatch("db", "check", check=False).stdout.rpartition("needs ")[2].strip()
    fresh.one("UPDATE alembic_version SET version_num = :wanted RETURNING version_num", wanted=wanted)
    eventually(lambda: ask(address, "/healthz")[0] == 200, "it is well again")


def test_a_gateway_that_hangs_is_red_and_holds_up_no_answer(fresh, address):
    (gateway,) = [each for each in fresh.processes() if "pidispatch.entrypoints.gateway" in _arguments(each)]
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        eventually(lambda: ask(address, "/healthz")[0] == 503, "a gateway that hangs is red")
        assert words(ask(address, "/healthz")[1]) == ["gateway-silent"]
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    eventually(lambda: ask(address, "/healthz")[0] == 200, "it is well again")


def test_a_run_that_starts_in_time_leaves_it_well(fresh, address):
    assert fresh.run(fresh.repository())["outcome"] == "completed"

    status, metrics = ask(address, "/metrics")

    assert status == 200
    assert ask(address, "/healthz")[0] == 200
    assert 'pidispatch_window_used_runs{period="day",scope="*"} 1.0' in metrics


def _arguments(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []
