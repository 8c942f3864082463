"""What lies in a directory of a box, and what its processes wrote, measured in bounded time."""

import os

import pytest

from pidispatch.domain.box.sandbox import MIB, Mount
from pidispatch.runtime.usage import bytes_below, written_by
from tests.support.boxes import SOMEBODY, a_box
from tests.support.patience import eventually

NAMES = 100


def test_blocks_count_and_not_lengths(tmp_path):
    (tmp_path / "a").write_bytes(bytes(MIB))
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "b").write_bytes(bytes(MIB))
    (tmp_path / "link").symlink_to("/usr")

    assert 2 * MIB <= bytes_below(tmp_path, most_names=NAMES) < 2 * MIB + 65536


def test_too_many_names_are_not_counted_to_the_end(tmp_path):
    for n in range(NAMES + 1):
        (tmp_path / str(n)).touch()

    assert bytes_below(tmp_path, most_names=NAMES) is None
    assert bytes_below(tmp_path, most_names=NAMES + 1) is not None


def test_what_is_deeper_than_anybody_needs_cannot_be_measured(tmp_path):
    place = tmp_path
    for _ in range(70):
        place /= "d"
        place.mkdir()

    assert bytes_below(tmp_path, most_names=NAMES) is None


def test_what_is_not_there_or_is_a_link_cannot_be_measured(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)

    assert bytes_below(tmp_path / "nothing", most_names=NAMES) is None
    assert bytes_below(tmp_path / "link", most_names=NAMES) is None


@pytest.mark.docker
@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel tells this to root alone")
def test_what_a_box_wrote_is_known_with_what_its_dead_children_wrote(
    boxes, installation, job_image, tmp_path
):
    work = tmp_path / "work"
    work.mkdir()
    os.chown(work, SOMEBODY, SOMEBODY)
    script = (
        "head -c 4194304 /dev/zero > /workspace/a; (head -c 4194304 /dev/zero > /workspace/b &) ; sleep 600"
    )
    made = boxes.create(
        a_box(
            installation,
            job_image,
            "sh",
            "-c",
            script,
            mounts=(Mount(str(work), "/workspace", read_only=False),),
        )
    )
    boxes.start(made)

    assert eventually(lambda: (written_by(made) or 0) >= 8 * MIB, within=60)
    assert written_by(made) < 16 * MIB
    boxes.stop(made, grace=0)
    assert eventually(lambda: written_by(made) is None, within=60)
