"""Binds of folders: without set-uid programs and devices, gone with the start, and gone after kill -9."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from pidispatch.domain.box.sandbox import WORKSPACE_DIR, Mount
from pidispatch.runtime.binding import BindPlaces
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.mounts import DockerMounts
from tests.support.boxes import SOMEBODY, a_box
from tests.support.image import IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("attack-box")]

HOLD = """
import os, sys, time
from pathlib import Path
from pidispatch.runtime.binding import BindPlaces
with BindPlaces(Path(sys.argv[1])).bound("box-1", os.open(sys.argv[2], os.O_PATH | os.O_DIRECTORY)) as bind:
    print(bind.path, flush=True)
    time.sleep(600)
"""
AS_SOMEBODY = """
import json, sys
from pathlib import Path
from pidispatch.domain.box.sandbox import Mount
from pidispatch.errors import PidispatchError
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.runtime.workspace import open_folder
from tests.attack.box.swapping import exchange
from tests.support.boxes import a_box
import os
installation, image, repo, link, run, uid, group = sys.argv[1:]
os.setgroups([int(group)]), os.setgid(int(uid)), os.setuid(int(uid))
engine = Engine()
boxes, mounts = DockerBoxes(engine), DockerMounts(engine, Path(run))
said = []
for swapped in (False, True):
    folder = open_folder(repo, worker_uid=os.geteuid())
    wanted = Mount(folder.path, "/workspace", read_only=False, identity=folder.identity)
    with mounts.hold("box", [wanted]) as held:
        box = boxes.create(a_box(installation, image, "sleep", "60", mounts=tuple(held)))
        if swapped:
            exchange(Path(repo), Path(link))
        boxes.start(box)
        try:
            mounts.check(box, held)
            said.append("the same")
        except PidispatchError as error:
            said.append(getattr(error, "reason", repr(error)))
print(json.dumps(said))
"""


def mounted(path) -> int:
    return Path("/proc/self/mountinfo").read_text().count(f" {path} ")


def holder(root, folder):
    """A process that holds a bind, and the bind's path."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    with process.stdout as said:
        return process, said.readline().strip()


def test_the_workspace_has_no_set_uid_programs_and_no_devices(engine, installation, ground, tmp_path):
    boxes, mounts = DockerBoxes(engine), DockerMounts(engine, tmp_path)
    facts = ground.repo.stat()
    wanted = Mount(str(ground.repo), WORKSPACE_DIR, read_only=False, identity=(facts.st_dev, facts.st_ino))

    with mounts.hold("box", [wanted]) as held:
        box = boxes.create(a_box(installation, IMAGE, "sleep", "60", mounts=tuple(held)))
        boxes.start(box)
        mounts.check(box, held)

    assert mounted(held[0].source) == 0  # what lives keeps its own
    pid = engine.api.inspect_container(box)["State"]["Pid"]
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
        if f" {WORKSPACE_DIR} " in line
    ]
    options = line.split()[5].split(",")
    assert {"rw", "nosuid", "nodev"} <= set(options)
    assert Path(f"/proc/{pid}/root{WORKSPACE_DIR}/own").exists()
    assert mounted(tmp_path) == 0
    assert (ground.repo / "own").exists()


def test_the_bind_of_a_killed_process_is_undone_and_its_folder_stays(ground, tmp_path):
    places = BindPlaces(tmp_path / "mounts")
    process, path = holder(tmp_path / "mounts", ground.repo)
    try:
        assert mounted(path) == 1
        assert places.sweep() == 0  # it lives
        assert mounted(path) == 1
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()

    assert places.sweep() == 1

    assert mounted(path) == 0
    assert (ground.repo / "own").exists()
    assert list((tmp_path / "mounts").iterdir()) == []


def test_a_place_that_a_killed_process_left_is_taken_over(ground, tmp_path):
    process, path = holder(tmp_path / "mounts", ground.victim)
    process.send_signal(signal.SIGKILL)
    process.wait()
    opened = os.open(ground.repo, os.O_PATH | os.O_DIRECTORY)

    with BindPlaces(tmp_path / "mounts").bound("box-1", opened) as bind:
        assert bind.path == path
        assert mounted(path) == 1
        assert Path(path, "own").exists()

    os.close(opened)
    assert mounted(path) == 0
    assert (ground.victim / "secret").exists()


def test_an_engine_that_sees_other_mounts_is_told_names_from_then_on(engine, installation, ground, tmp_path):
    boxes, mounts = DockerBoxes(engine), DockerMounts(engine, tmp_path)
    facts = ground.repo.stat()
    wanted = Mount(str(ground.repo), WORKSPACE_DIR, read_only=False, identity=(facts.st_dev, facts.st_ino))

    with mounts.hold("box", [wanted]) as held:
        # As from another mount namespace: there is the bare directory that the bind would cover.
        subprocess.run(["umount", held[0].source], check=True)
        box = boxes.create(a_box(installation, IMAGE, "sleep", "60", mounts=tuple(held)))
        boxes.start(box)
        with pytest.raises(Exception, match="does not see what this process mounts"):
            mounts.check(box, held)

    with mounts.hold("box", [wanted]) as held:
        assert held == (replace(wanted),)


def test_a_worker_that_is_not_root_sees_what_its_box_has(engine, installation):
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    socket = Path("/var/run/docker.sock")
    if os.environ.get("DOCKER_HOST") or not socket.exists():
        pytest.skip("the engine is reached in another way")
    project = Path(__file__).parents[3]
    with tempfile.TemporaryDirectory(prefix="pd-", dir="/tmp") as place:
        root = Path(place)
        repo, other = root / "repo", root / "other"
        for path in (repo, other):
            path.mkdir()
        link = root / "link"
        link.symlink_to(other)
        for path in (root, repo, other):
            os.chown(path, SOMEBODY, SOMEBODY)

        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-c",
                    AS_SOMEBODY,
                    installation,
                    IMAGE,
                    str(repo),
                    str(link),
                    str(root / "run"),
                ),
                *(str(SOMEBODY), str(socket.stat().st_gid)),
            ],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["the same", "workspace-gone"]
