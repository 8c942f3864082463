"""A box that fills the disk of its folder is stopped before the disk is full, and only that box."""

import os
import textwrap
import threading

import pytest

from pidispatch.domain.disks import Bounds
from pidispatch.domain.run import Occupant, State
from pidispatch.domain.sandbox import (
    LABEL_ATTEMPT,
    LABEL_INSTALLATION,
    LABEL_ROLE,
    LABEL_RUN,
    MIB,
    ROLE_JOB,
    Mount,
)
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.runtime.usage import written_by
from pidispatch.upkeep.rooms import RoomKeeper
from tests.support.boxes import SOMEBODY, a_box, an_installation, image_or_skip
from tests.support.disks import ext4_disk, fill_but
from tests.support.patience import eventually, slowness

pytestmark = pytest.mark.docker
SIZE = 1024 * MIB
LEFT = 60 * MIB
# An agent may be faster, and a disk of an operator is larger by as much. None of them ends by itself. All that they do,
# and whoever watches them, takes longer on a busy machine: BUSY is put in for how much.
WRITES = """
    import time
    for n in range(10_000):
        try:
            with open(f"/workspace/{n}", "wb") as file:
                file.write(bytes(1 << 20))
        except OSError:
            pass
        time.sleep(0.2 * BUSY)
"""
RESERVES = """
    import os, time
    for n in range(10_000):
        try:
            os.posix_fallocate(os.open(f"/workspace/{n}", os.O_CREAT | os.O_WRONLY), 0, 1 << 20)
        except OSError:
            pass
        time.sleep(0.2 * BUSY)
"""
CHILDREN = """
    import subprocess, time
    for n in range(10_000):
        subprocess.run(["sh", "-c", f"head -c 1048576 /dev/zero > /workspace/{n} &"])
        time.sleep(0.2 * BUSY)
"""
NAMES = """
    import os, time
    for n in range(10_000):
        try:
            os.mkdir(f"/workspace/{n}")
            for m in range(100):
                os.close(os.open(f"/workspace/{n}/{m}", os.O_CREAT | os.O_WRONLY))
        except OSError:
            pass
        time.sleep(0.05 * BUSY)
"""
IDLES = "import time; time.sleep(600)"
SMALL = """
    import time
    while True:
        with open("/workspace/log", "ab") as file:
            file.write(bytes(4096))
        time.sleep(0.1 * BUSY)
"""


class Rows:
    """The rows of runs: what was asked of them."""

    def __init__(self):
        self.boxes, self.asked = {}, {}

    def occupant(self, run_id):
        return Occupant(
            run_id, "r", State.RUNNING, 1, 1, self.boxes[run_id], None, None, None, None, None, None
        )

    def request_stop(self, run_id, *, reason):
        self.asked[run_id] = reason
        return True


class Lab:
    def __init__(self, installation, disk, run_dir):
        self.engine = Engine()
        self.mounts = DockerMounts(self.engine, run_dir)
        self.boxes, self.rows, self.installation, self.disk = (
            DockerBoxes(self.engine),
            Rows(),
            installation,
            disk,
        )
        self.least = SIZE
        self.keeper = RoomKeeper(
            installation=installation,
            places=dict,
            measure=self.measure,
            written_by=written_by,
            overfull=lambda _name: False,
            watch=self.boxes,
            boxes=self.boxes,
            occupants=self.rows,
            bounds=Bounds(),
        )

    def measure(self, places):
        found = measure(places)
        self.least = min([self.least, *(each.free for each in found)])
        return found

    def start(self, run_id, program):
        work = self.disk / f"run-{run_id}"
        work.mkdir()
        os.chown(work, SOMEBODY, SOMEBODY)
        labels = {LABEL_INSTALLATION: self.installation, LABEL_ROLE: ROLE_JOB}
        labels |= {LABEL_RUN: str(run_id), LABEL_ATTEMPT: "1"}
        facts = work.stat()
        folder = Mount(str(work), "/workspace", read_only=False, identity=(facts.st_dev, facts.st_ino))
        with self.mounts.hold(f"run-{run_id}", (folder,)) as held:  # as the launcher does
            made = self.boxes.create(self.spec(program, held, labels))
            self.boxes.start(made)
        self.rows.boxes[run_id] = made
        return made

    def spec(self, program, mounts, labels):
        return a_box(
            self.installation,
            image_or_skip(self.engine),
            "python3",
            "-c",
            textwrap.dedent(program).replace("BUSY", str(min(5.0, slowness() / 2))),
            mounts=mounts,
            labels=labels,
        )

    def ended(self, box):
        return self.boxes.inspect(box).ended


@pytest.fixture
def lab(tmp_path):
    engine = Engine()
    image_or_skip(engine)
    with (
        ext4_disk(tmp_path / "disk", size=SIZE) as disk,
        an_installation(DockerBoxes(engine)) as installation,
    ):
        fill_but(disk, LEFT)
        made, stop = Lab(installation, disk, tmp_path / "run"), threading.Event()
        thread = threading.Thread(target=made.keeper.run, args=(stop,))
        thread.start()
        yield made
        stop.set()
        thread.join()
        for box in made.rows.boxes.values():
            made.boxes.remove(box)


@pytest.mark.parametrize("program", [WRITES, CHILDREN], ids=["itself", "by its children's children"])
def test_who_writes_is_known_and_stopped_before_the_disk_is_full(lab, program):
    idle, small = lab.start(1, IDLES), lab.start(2, SMALL)

    box = lab.start(3, program)

    assert eventually(lambda: lab.ended(box), within=120)
    assert lab.least > 0
    assert lab.rows.asked == {3: "disk-low"}
    assert not lab.ended(idle)
    assert not lab.ended(small)


def test_space_that_is_reserved_stops_the_only_one_there(lab):
    box = lab.start(3, RESERVES)

    assert eventually(lambda: lab.ended(box), within=120)
    assert lab.least > 0
    assert lab.rows.asked == {3: "disk-low-shared"}


def test_space_that_is_reserved_among_others_stops_the_oldest_until_it_ends(lab):
    lab.start(1, IDLES)
    box = lab.start(2, RESERVES)

    assert eventually(lambda: lab.ended(box), within=120)
    assert lab.rows.asked == {1: "disk-low-shared", 2: "disk-low-shared"}


def test_names_run_out_no_more_than_bytes_do(lab):
    box = lab.start(3, NAMES)

    assert eventually(lambda: lab.ended(box), within=120)
    assert os.statvfs(lab.disk).f_favail > 0
    assert lab.rows.asked == {3: "disk-low"}
