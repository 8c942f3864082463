"""The ballast: real blocks, made only where there is room, and never in the way."""

import os

import pytest

from pidispatch.services.ballast import Ballast
from tests.support.disks import ext4_disk, fill_but

MIB = 1024**2


@pytest.fixture
def ballast(tmp_path):
    return Ballast(tmp_path / "ballast")


def free(path):
    facts = os.statvfs(path)
    return facts.f_bavail * facts.f_frsize


def test_it_takes_real_room_and_gives_it_back(tmp_path):
    with ext4_disk(tmp_path / "disk", size=64 * MIB) as disk:
        ballast, before = Ballast(disk / "ballast"), free(disk)

        assert ballast.make(8 * MIB)
        assert before - free(disk) >= 8 * MIB
        assert ballast.size() >= 8 * MIB
        fill_but(disk, 0)
        assert ballast.free() >= 8 * MIB
        assert free(disk) >= 8 * MIB
        assert ballast.free() == 0


def test_it_is_not_made_where_it_would_be_what_fills_the_disk(tmp_path):
    with ext4_disk(tmp_path / "disk", size=64 * MIB) as disk:
        assert not Ballast(disk / "ballast").make(24 * MIB)

        assert list(disk.glob("ballast*")) == []


def test_one_that_is_there_is_left_and_a_smaller_one_is_made_anew(ballast):
    assert ballast.make(MIB)
    first = ballast.path.stat().st_ino
    assert ballast.make(MIB)
    assert ballast.path.stat().st_ino == first

    assert ballast.make(2 * MIB)
    assert ballast.size() >= 2 * MIB


def test_none_is_kept_where_none_is_wanted(ballast):
    ballast.make(MIB)

    assert not ballast.make(0)
    assert not ballast.path.exists()


def test_a_sparse_file_and_a_directory_that_is_not_there_are_no_ballast(ballast, tmp_path):
    with ballast.path.open("wb") as file:
        file.truncate(8 * MIB)
    assert ballast.size() == 0
    assert not Ballast(tmp_path / "nowhere" / "ballast").make(MIB)


def test_a_link_in_its_place_is_replaced_and_not_followed(ballast, tmp_path):
    other = tmp_path / "other"
    other.write_text("somebody's")
    ballast.path.symlink_to(other)
    ballast.path.with_suffix(".partial").symlink_to(other)

    assert ballast.make(MIB)

    assert other.read_text() == "somebody's"
    assert not ballast.path.is_symlink()
