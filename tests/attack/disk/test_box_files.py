"""A box that fills what it may write on the host meets a bound of the kernel; what it left lasts until it is removed."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pidispatch.domain.sandbox import MIB, OUTBOX_DIR, SESSION_DIR, Mount
from pidispatch.files.outbox import read_outbox
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.jobfiles import MOST_NAMES, SIZED, JobFiles, Sizing
from pidispatch.runtime.sizedfiles import EngineSight
from tests.support.boxes import SOMEBODY, a_box, image_or_skip
from tests.support.patience import eventually

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts what is sized"),
]
ROOM = 4 * MIB
FILE = 8 * MIB


@pytest.fixture
def files(tmp_path, engine):
    made = JobFiles(tmp_path / "jobs", Sizing(ROOM, EngineSight(engine).sees))
    yield made
    for name in made.leftovers():
        made.remove(name)


def run(engine, installation, files, program, **changes):
    """The program as a box's, to its end; returns the box's name, its exit code and what it said."""
    boxes = DockerBoxes(engine)
    spec = a_box(installation, image_or_skip(engine), "python3", "-c", textwrap.dedent(program), **changes)
    paths = files.prepare(spec.name, {"prompt.md": b"x"}, uid=SOMEBODY, gid=SOMEBODY)
    mounts = (
        Mount(paths.outbox, OUTBOX_DIR, read_only=False),
        Mount(paths.session, SESSION_DIR, read_only=False),
    )
    made = boxes.create(
        a_box(installation, spec.image, *spec.entrypoint, name=spec.name, mounts=mounts, **changes)
    )
    boxes.start(made)
    ended = eventually(lambda: (found := boxes.inspect(made)) and found.ended and found, within=120)
    said = boxes.tail(made, 4096).decode()
    boxes.remove(made)
    return spec.name, ended.exit_code, said


def test_an_outbox_takes_no_more_than_it_was_given_and_says_so_at_once(engine, installation, files):
    name, _, said = run(
        engine,
        installation,
        files,
        """
        written = 0
        try:
            with open("/outbox/request-1.json", "wb", buffering=0) as file:
                while True:
                    written += file.write(bytes(65536))
        except OSError as error:
            print(error.errno, written)
        """,
    )

    number, written = said.split()
    assert int(number) == 28  # ENOSPC
    assert int(written) <= ROOM
    assert Path(files.outbox(name), "request-1.json").stat().st_size == int(written)


@pytest.mark.parametrize(
    "program",
    [
        "open('/outbox/sparse', 'wb').truncate(1 << 40)",  # has no bytes, and no file may be that long
        "import os; os.posix_fallocate(os.open('/session/x', os.O_CREAT | os.O_WRONLY), 0, 6 << 20)",
        "import mmap, os\nf = open('/session/m', 'w+b')\nf.truncate(6 << 20)\nm = mmap.mmap(f.fileno(), 6 << 20)\nm[:] = bytes(6 << 20)",
    ],
)
def test_no_other_way_to_take_room_takes_more(engine, installation, files, program):
    name, code, _ = run(engine, installation, files, program, file_bytes=FILE)

    assert code != 0
    taken = sum(each.stat().st_blocks * 512 for each in Path(files.outbox(name)).parent.rglob("*"))
    assert taken <= ROOM


def test_names_are_bounded_as_bytes_are(engine, installation, files):
    name, _, said = run(
        engine,
        installation,
        files,
        """
        made = 0
        try:
            while True:
                open(f"/outbox/{made}", "w").close()
                made += 1
        except OSError as error:
            print(error.errno, made)
        """,
    )

    number, made = map(int, said.split())
    assert number == 28
    assert made < MOST_NAMES
    files.remove(name)
    assert files.leftovers() == []


def test_a_file_anywhere_is_no_longer_than_its_bound(engine, installation, files, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, SOMEBODY, SOMEBODY)
    boxes = DockerBoxes(engine)
    program = "import resource\ntry:\n    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\nexcept ValueError:\n    print('kept')\n"
    program += "f = open('/workspace/x', 'wb', buffering=0)\nwhile True:\n    f.write(bytes(65536))"
    made = boxes.create(
        a_box(
            installation,
            image_or_skip(engine),
            "python3",
            "-c",
            program,
            mounts=(Mount(str(work), "/workspace", read_only=False),),
            file_bytes=FILE,
        )
    )
    boxes.start(made)
    assert eventually(lambda: boxes.inspect(made).ended, within=60)

    assert boxes.inspect(made).exit_code != 0
    assert "kept" in boxes.tail(made, 4096).decode()
    assert (work / "x").stat().st_size == FILE
    assert [each.name for each in work.iterdir()] == ["x"]  # and no dump of memory


def test_what_a_box_left_outlives_it_and_the_worker_and_goes_when_it_is_removed(
    engine, installation, files, tmp_path
):
    name, code, _ = run(
        engine,
        installation,
        files,
        'open(\'/outbox/request-1.json\', \'w\').write(\'{"flow": "a", "task": "b"}\')',
    )
    assert code == 0

    # Another process, as after a kill -9, which knows nothing of the mount.
    later = JobFiles(tmp_path / "jobs", Sizing(ROOM, EngineSight(engine).sees))
    (letter,) = read_outbox(later.outbox(name), most=5)
    assert letter.content == b'{"flow": "a", "task": "b"}'
    assert later.leftovers() == [name]
    later.remove(name)
    assert later.leftovers() == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_after_a_reboot_an_outbox_is_missing_and_not_empty(engine, installation, files, tmp_path):
    name, _, _ = run(engine, installation, files, "open('/outbox/request-1.json', 'w').write('{}')")
    subprocess.run(["umount", tmp_path / "jobs" / name / SIZED], check=True)

    (letter,) = read_outbox(files.outbox(name), most=5)

    assert letter.refused == "chain-collect-error"
    files.remove(name)
    assert files.leftovers() == []


def test_a_worker_whose_mounts_the_engine_does_not_see_makes_none_and_measures(tmp_path):
    """As under a systemd unit with a mount namespace of its own: an empty directory would be mounted in its place."""
    program = f"""
    from pathlib import Path
    from pidispatch.runtime.engine import Engine
    from pidispatch.runtime.jobfiles import JobFiles, Sizing
    from pidispatch.runtime.sizedfiles import EngineSight
    files = JobFiles(Path({str(tmp_path / "jobs")!r}), Sizing({ROOM}, EngineSight(Engine()).sees))
    paths = files.prepare("pi-job-0123abcd-1-1", {{}}, uid=12345, gid=12345)
    assert files.outbox("pi-job-0123abcd-1-1") == paths.outbox, paths
    assert not files.overfull("pi-job-0123abcd-1-1")
    Path(paths.outbox, "x").write_bytes(bytes({ROOM + 4096}))
    assert files.overfull("pi-job-0123abcd-1-1")
    """
    command = ["unshare", "--mount", sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 0, done.stderr
    assert Path(tmp_path, "jobs", "pi-job-0123abcd-1-1", "outbox", "x").exists()
