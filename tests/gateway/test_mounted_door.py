"""A door as a box sees it: its directory mounted read-only, its socket made again by each new gateway."""

import os
import subprocess

import pytest

from tests.support.image import IMAGE

pytestmark = pytest.mark.docker
UID = 4321 if os.getuid() == 0 else os.getuid()
ASK = """
import socket, sys
sock = socket.socket(socket.AF_UNIX)
try:
    sock.connect(sys.argv[1])
    sock.sendall(b"GET /budget HTTP/1.1\\r\\nhost: 8\\r\\n\\r\\n")
    print(sock.recv(12).decode())
except OSError as error:
    print(type(error).__name__)
"""
PRESS = """
import os
for what in (lambda: os.unlink("/gate/s"), lambda: open("/gate/x", "w"), lambda: os.rename("/gate/s", "/gate/t"),
             lambda: os.chmod("/gate/s", 0), lambda: os.mkdir("/gate/8"), lambda: os.listdir("/gate")):
    try:
        what()
        print("DONE")
    except OSError as error:
        print(type(error).__name__)
print(os.path.exists("/gate/../8"), os.path.exists("/gate/../gateway.sock"))
"""


@pytest.fixture
def box():
    """Start a box that has a directory as its /gate; returns what runs Python in it."""
    started = []

    def start(directory):
        command = ["docker", "run", "-d", "--network", "none", "--user", f"{UID}:{UID}", "--cap-drop", "ALL"]
        command += ["-v", f"{directory}:/gate:ro", "--entrypoint", "sleep", IMAGE, "300"]
        started.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())

        def run(program, *arguments):
            inside = ["docker", "exec", started[-1], "python3", "-c", program, *arguments]
            return subprocess.run(inside, capture_output=True, text=True, check=True).stdout.strip()

        return run

    yield start
    for container in started:
        subprocess.run(["docker", "rm", "-f", container], capture_output=True, check=False)


def test_a_box_reaches_its_door_again_after_each_restart_of_the_gateway(make_house, box):
    first = make_house()
    python = box(first.open(7).parent)

    answers = [python(ASK, "/gate/s")]
    first.gateway.stop()
    first.gateway.stop = lambda: None
    answers.append(python(ASK, "/gate/s"))
    second = make_house(like=first)
    answers.append(python(ASK, "/gate/s"))
    second.doors.close(7)
    second.doors.open(7)
    answers.append(python(ASK, "/gate/s"))

    assert answers == ["HTTP/1.1 200", "FileNotFoundError", "HTTP/1.1 200", "HTTP/1.1 200"]


def test_a_box_can_change_nothing_at_its_door_and_sees_no_other(make_house, box):
    house = make_house()
    house.open(8)
    python = box(house.open(7).parent)

    *refusals, seen = python(PRESS).splitlines()

    assert "DONE" not in refusals
    assert len(refusals) == 6
    assert seen == "False False"
    assert python(ASK, "/gate/s") == "HTTP/1.1 200"
