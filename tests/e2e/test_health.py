"""A running installation answers for its health, and turns red when something is wrong with it."""

import http.client
import json
import os
import signal
import socket

import psutil
import pytest

from tests.e2e.installation import Installation, eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


def ask(installation: Installation, page: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("health", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(20)
    try:
        connection.sock.connect(str(installation.health))
        connection.request("GET", page)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:  # nobody has taken the address yet
        return 0, ""
    finally:
        connection.close()


def words(installation: Installation) -> list[str]:
    return [fault["word"] for fault in json.loads(ask(installation, "/healthz")[1])["faults"]]


def is_well(installation: Installation) -> None:
    eventually(lambda: ask(installation, "/healthz")[0] == 200, "it is well")


def test_it_is_well_while_runs_start_and_end(installation: Installation) -> None:
    is_well(installation)
    assert installation.run(installation.repository("health"))["outcome"] == "completed"

    status, metrics = ask(installation, "/metrics")

    assert status == 200
    assert "pidispatch_healthy 1.0\n" in metrics
    assert 'pidispatch_window_cap_runs{period="day",scope="*"} 1000.0' in metrics
    assert 'pidispatch_runs_ended_today{outcome="completed",reason="completed"}' in metrics
    assert installation.pidispatch("status", "--check").returncode == 0


def test_another_schema_is_red_until_it_is_ours_again(installation: Installation) -> None:
    is_well(installation)
    ours = installation.one("SELECT version_num FROM pidispatch_alembic_version")["version_num"]
    installation.one("UPDATE pidispatch_alembic_version SET version_num = '9999' RETURNING 1")
    try:
        eventually(lambda: ask(installation, "/healthz")[0] == 503, "another schema is red")
        assert words(installation) == ["schema-differs"]
    finally:
        installation.one("UPDATE pidispatch_alembic_version SET version_num = :ours RETURNING 1", ours=ours)
    is_well(installation)


def test_a_gateway_that_hangs_is_red_and_holds_up_no_answer(installation: Installation) -> None:
    is_well(installation)
    (gateway,) = [
        each for each in installation.processes() if "pidispatch.entrypoints.gateway" in _arguments(each)
    ]
    os.kill(gateway.pid, signal.SIGSTOP)
    try:
        eventually(lambda: ask(installation, "/healthz")[0] == 503, "a gateway that hangs is red")
        assert words(installation) == ["gateway-silent"]
        said = installation.pidispatch("status", "--check", check=False)
        assert said.returncode == 1
        assert "red: gateway-silent: " in said.stdout
    finally:
        os.kill(gateway.pid, signal.SIGCONT)
    is_well(installation)


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
