"""A box ends at its time with everything else dead, whatever its agent does to the runner; tried on the image itself."""

import os
import subprocess
import textwrap
import time

import pytest

from pidispatch.runtime.engine import Engine
from tests.support.boxes import image_or_skip
from tests.support.scale import NIGHTLY

pytestmark = pytest.mark.docker
LIMIT = 2.0
OVERDUE = 98
# What the agent, a child of the runner and of the same user, does before the box's time is over.
AGENTS = {
    "stops the runner": "os.kill(runner, signal.SIGSTOP)",
    "stops everything": "os.kill(-1, signal.SIGSTOP)",
    "stops the init": "os.kill(1, signal.SIGSTOP); os.kill(1, signal.SIGKILL); os.kill(runner, signal.SIGSTOP)",
    "stops the runner again and again": """
        while True:
            os.kill(runner, signal.SIGSTOP)
            os.kill(1, signal.SIGUSR1)
    """,
    "leaves many that burn": """
        for _ in range(40):
            if os.fork() == 0:
                while True:
                    pass
        os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))
        os.kill(runner, signal.SIGSTOP)
    """,
}


def box(agent, *, env=()):
    """No gateway, no worker, no Postgres: only the image, as the engine starts a box without an init of its own."""
    program = f"""
    import os, signal, sys, time
    sys.path.insert(0, "/opt/pidispatch")
    from runner.init import stand_over
    stand_over(os.environ, {LIMIT})
    runner = os.getpid()
    if os.fork() == 0:
        exec({textwrap.dedent(agent)!r})
        time.sleep(600)
    time.sleep(600)
    """
    command = [
        "docker", "run", "--rm", "--user", "12345:12345", "--network", "none", "--read-only", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--pids-limit", "512", "--cpus", "2", "--entrypoint", "/usr/bin/python3",
        *(word for each in env for word in ("--env", each)),
        image_or_skip(Engine()), "-I", "-S", "-c", textwrap.dedent(program),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_the_box_ends_at_its_time(agent):
    done = box(agent)

    assert done.returncode == OVERDUE, done.stderr


@pytest.mark.skipif(not NIGHTLY, reason="takes three minutes: nightly")
def test_the_images_own_entrypoint_ends_at_the_deadline_with_nobody_there(tmp_path):
    """The real runner, stopped from outside while it asks a gateway that is dead for its go."""
    name = f"pi-deadline-{os.getpid()}"
    command = [
        "docker", "run", "--rm", "--name", name, "--user", "12345:12345", "--network", "none", "--cap-drop", "ALL",
        "--env", "PI_DISPATCH_DEADLINE=1", "--env", "PI_PROVIDER=p", "--env", "PI_MODEL=m", "--env", "PI_MAX_TURNS=1",
        "--env", "PI_JOB_ID=j", "--env", "PI_DISPATCH_ATTEMPT=1", "--env", f"PI_DISPATCH_GATE={tmp_path}/none",
        image_or_skip(Engine()),
    ]  # fmt: skip
    began = time.monotonic()
    with subprocess.Popen(command) as running:
        stop = "import os, signal\nfor p in filter(str.isdigit, os.listdir('/proc')):\n    p == '1' or int(p) == os.getpid() or os.kill(int(p), 19)"
        while subprocess.run(
            ["docker", "exec", name, "python3", "-c", stop], capture_output=True, check=False
        ).returncode:
            assert time.monotonic() - began < 60
        assert running.wait(timeout=300) == OVERDUE
