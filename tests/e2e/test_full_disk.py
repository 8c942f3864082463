"""A whole installation whose disk is full: it starts, says what is full, admits nothing, and goes on when there is room."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pidispatch.domain.box.sandbox import MIB
from pidispatch.entrypoints.scripted import ScriptedProvider
from tests.e2e.installation import Installation, eventually
from tests.support.disks import ext4_disk, fill_but

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def on_a_small_disk():
    """An installation of this file's own, started."""
    folder = Path(tempfile.mkdtemp(prefix="pdd-", dir="/tmp"))
    folder.chmod(0o711)
    try:
        with ext4_disk(folder / "disk", size=1536 * MIB) as disk, ScriptedProvider() as provider:
            disk.chmod(0o711)
            made = Installation(disk, provider)
            made.environment |= {"PIDISPATCH_BALLAST": "64m", "PIDISPATCH_RUN_DIR": str(folder / "run")}
            made.start()
            yield made
            made.close()
            if made.process is not None and made.process.poll() is None:
                made.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free(path):
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize


def test_up_starts_on_a_full_disk_and_what_waited_goes_on_when_there_is_room(on_a_small_disk):
    house = on_a_small_disk
    ballast = house.home / "ballast"
    eventually(ballast.exists, "the ballast is made", seconds=60)
    folder = house.repository()
    answer = house.run(folder, model="gated", wait=False)
    eventually((folder / "waiting").exists, "the agent waits", seconds=60)
    house.kill()

    filler = fill_but(house.root, 0)
    assert free(house.root) < MIB
    house.start()

    said = "\n".join(house.lines)
    assert "full: " in said
    assert "freed the ballast of 64 MiB" in said
    assert "ended pi-job-" in said
    assert not ballast.exists()
    eventually(lambda: house.state(answer["public_id"]) == "ended", "its end is written", seconds=60)
    record = house.record(answer["public_id"])
    assert (record["outcome"], record["reason"], record["why"]) == (
        "policy",
        "worker-abort",
        "disk-low-shared",
    )

    waiting = house.run(house.repository("second"), wait=False)["public_id"]
    cause = "SELECT coalesce(cause, '') AS cause FROM runs WHERE public_id = :id"
    eventually(lambda: house.one(cause, id=waiting)["cause"] == "disk-low", "it waits for room", seconds=60)
    assert "a disk is nearly full (disk-low)" in house.pidispatch("explain", waiting).stdout
    health = json.loads(house.pidispatch("status", "--json").stdout)["health"]
    assert "disk-low" in [fault["word"] for fault in health["faults"]]
    examined = house.pidispatch("doctor", check=False)
    assert "nothing starts" in examined.stdout
    assert "ballast" in examined.stdout

    filler.unlink()
    eventually(lambda: house.state(waiting) == "ended", "it goes on", seconds=120)
    assert house.record(waiting)["outcome"] == "completed"
    eventually(ballast.exists, "the ballast is made again", seconds=60)


def test_without_a_ballast_up_says_what_is_full_and_leaves_nothing_half_done(on_a_small_disk):
    house = on_a_small_disk
    assert house.stop() == 0
    (house.home / "ballast").unlink(missing_ok=True)
    house.environment["PIDISPATCH_BALLAST"] = "0"
    filler = fill_but(house.root, 0)

    done = house.pidispatch("up", check=False)

    assert done.returncode == 1
    assert "there is no ballast to free: remove what is not needed there" in done.stderr
    assert "Traceback" not in done.stderr
    filler.unlink()
    house.start()
