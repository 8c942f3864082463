"""The Valkey of docker-compose.yml hears SIGTERM: it writes what it holds and ends, instead of being killed."""

import re
import subprocess
import textwrap
from pathlib import Path

import pytest

from pidispatch.runtime.engine import Engine
from pidispatch.services.binaries import find_valkey
from tests.support.boxes import image_or_skip
from tests.support.image import IMAGE

TEXT = (Path(__file__).parents[3] / "docker-compose.yml").read_text()


def script() -> str:
    """What the service's shell is given, as compose reads it."""
    found = re.search(r"      - sh\n      - -c\n      - \|\n((?:        .*\n)+)", TEXT)
    assert found is not None
    return textwrap.dedent(found[1]).replace("$$", "$")


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.docker
def test_the_server_is_process_1_and_ends_by_sigterm(tmp_path):
    image_or_skip(Engine())
    shell = script().replace("docker-entrypoint.sh valkey-server", "/vk")
    assert "/vk - <<" in shell
    made = docker(
        "run", "-d", "--network", "none", "-v", f"{find_valkey().path}:/vk:ro", "--tmpfs", "/data:mode=1777",
        "-e", "VALKEYCLI_AUTH=hunter2hunter2", "--entrypoint", "sh", IMAGE, "-c", shell,
    )  # fmt: skip
    try:
        ready = "for i in $(seq 300); do grep -q vk /proc/1/cmdline && [ -d /data/appendonlydir ] && exit 0; sleep 0.1; done; exit 1"
        docker("exec", made, "sh", "-c", ready)
        arguments = docker("exec", made, "sh", "-c", "tr '\\0' ' ' </proc/1/cmdline")
        docker("stop", "-t", "120", made)

        state = docker("inspect", "-f", "{{.State.ExitCode}}", made)
        said = subprocess.run(["docker", "logs", made], capture_output=True, text=True, check=True)
    finally:
        docker("rm", "-f", made)

    assert arguments.startswith("/vk")
    assert "hunter2" not in arguments
    assert state == "0"
    assert "SIGTERM" in said.stdout + said.stderr
