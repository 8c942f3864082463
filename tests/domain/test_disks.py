"""How much room is enough, and whom to stop for what went."""

import pytest

from pidispatch.domain.box.disks import GIB, Blame, DiskBounds, DiskRoom, FileSystem, blame

BOUNDS = DiskBounds(warn=5 * GIB, admit=2 * GIB, stop=GIB)
MIB = 1024**2


def a_disk(free, size=1000 * GIB, **changes):
    return FileSystem(1, ("the home", "files of jobs"), "/", int(size), int(free), **changes)


@pytest.mark.parametrize(
    ("free", "room"),
    [
        (5 * GIB, DiskRoom.AMPLE),
        (5 * GIB - 1, DiskRoom.SCARCE),
        (2 * GIB, DiskRoom.SCARCE),
        (2 * GIB - 1, DiskRoom.LOW),
        (GIB, DiskRoom.LOW),
        (GIB - 1, DiskRoom.LAST),
        (0, DiskRoom.LAST),
    ],
)
def test_each_bound_that_is_passed_is_another_room(free, room):
    assert a_disk(free).room(BOUNDS) is room


def test_of_a_small_file_system_a_share_counts():
    small = 400 * MIB

    assert a_disk(0.11 * small, small).room(BOUNDS) is DiskRoom.AMPLE
    assert a_disk(0.06 * small, small).room(BOUNDS) is DiskRoom.SCARCE
    assert a_disk(0.03 * small, small).room(BOUNDS) is DiskRoom.LOW
    assert a_disk(0.01 * small, small).room(BOUNDS) is DiskRoom.LAST


def test_what_will_be_gone_before_anybody_acts_counts_as_gone():
    before, now = (
        a_disk(4 * GIB, names=10**6, names_free=900_000),
        a_disk(3 * GIB, names=10**6, names_free=800_000),
    )

    soon = now.soon(before, 2.5)

    assert (soon.free, soon.names_free) == (GIB // 2, 550_000)
    assert (now.room(BOUNDS), soon.room(BOUNDS)) == (DiskRoom.SCARCE, DiskRoom.LAST)
    assert before.soon(now, 2.5) == before


def test_a_disk_without_names_is_as_full_as_one_without_bytes():
    assert a_disk(500 * GIB, names=1000, names_free=19).room(BOUNDS) is DiskRoom.LAST
    assert a_disk(500 * GIB, names=1000, names_free=49).room(BOUNDS) is DiskRoom.LOW
    assert a_disk(500 * GIB, names=0, names_free=0).room(BOUNDS) is DiskRoom.AMPLE
    assert "19 of 1,000 names" in a_disk(500 * GIB, names=1000, names_free=19).in_words()


def test_bounds_of_nothing_bound_nothing():
    assert a_disk(0).room(DiskBounds(0, 0, 0)) is DiskRoom.AMPLE


def test_names_count_as_room_only_where_they_run_out():
    disk = a_disk(GIB, names=10**6, names_free=9_000)

    assert disk.fall_since(2 * GIB, 10_000, names=False) == GIB
    assert disk.fall_since(GIB, 10_000, names=True) == 1000 * 4096


def test_it_is_told_where_and_how_much():
    assert a_disk(1.5 * GIB).in_words() == "1.5 of 1,000.0 GiB are free where the home, files of jobs lie (/)"


@pytest.mark.parametrize(
    ("fall", "growths", "blamed"),
    [
        (GIB, {"a": 0, "b": GIB}, Blame("b", known=True)),
        (GIB, {"a": GIB // 2, "b": GIB // 4}, Blame("a", known=True)),
        (GIB, {"a": 1, "b": None, "c": GIB}, Blame("c", known=True)),
        (GIB, {"a": None}, Blame("a", known=True)),  # the only one that writes there
        (GIB, {"a": None, "b": None}, Blame("a", known=False)),
        (GIB, {"a": 0, "b": 0}, Blame("a", known=False)),  # space that is reserved is written by nobody
        (GIB, {"a": 0}, Blame("a", known=False)),
        (MIB, {"a": MIB}, None),
        (-GIB, {"a": GIB}, None),
        (GIB, {}, None),
    ],
)
def test_who_wrote_half_is_known_and_else_it_is_the_oldest(fall, growths, blamed):
    assert blame(fall, growths) == blamed
