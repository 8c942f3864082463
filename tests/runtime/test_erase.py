"""Remove what an agent made of its outbox."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pidispatch.runtime.erase import erase


def names(place):
    return [entry.name for entry in Path(place).iterdir()]


@pytest.fixture
def outside(tmp_path):
    place = tmp_path / "outside"
    place.mkdir()
    (place / "precious").write_text("kept")
    return place


@pytest.fixture
def tree(tmp_path, outside):
    tree = tmp_path / "jobs" / "box"
    (tree / "outbox" / "a" / "b").mkdir(parents=True)
    (tree / "outbox" / "file").write_text("x")
    return tree


def test_links_are_removed_and_never_followed(tree, outside):
    (tree / "link").symlink_to(outside)
    (tree / "outbox" / "a" / "link").symlink_to(outside)
    os.link(outside / "precious", tree / "outbox" / "hard")
    os.mkfifo(tree / "outbox" / "pipe")

    erase(tree.parent, "box")

    assert names(tree.parent) == []
    assert (outside / "precious").read_text() == "kept"


def test_a_link_in_the_place_of_the_tree_is_only_a_link(tree, outside):
    (tree.parent / "other").symlink_to(outside)

    erase(tree.parent, "other")

    assert names(tree.parent) == ["box"]
    assert (outside / "precious").read_text() == "kept"


def test_a_tree_of_fifteen_hundred_levels_is_removed(tree):
    here = os.open(tree / "outbox", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    erase(tree.parent, "box")

    assert names(tree.parent) == []


def test_a_directory_of_many_entries_is_removed(tree):
    for number in range(1100):
        (tree / "outbox" / f"f{number}").write_text("")
        if number % 50 == 0:
            (tree / "outbox" / f"d{number}").mkdir()

    erase(tree.parent, "box")

    assert names(tree.parent) == []


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError):
        erase(tmp_path, "none")


ERASE_AS_NOBODY = """
import os, sys
from pathlib import Path
from pidispatch.runtime.erase import erase
os.setgid(65534); os.setuid(65534)
tree = Path(sys.argv[1]) / "box"
(tree / "a" / "b").mkdir(parents=True)
(tree / "a" / "b" / "file").write_text("")
for place in (tree / "a" / "b", tree / "a", tree):
    place.chmod(0)
erase(tree.parent, "box")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else")
def test_rights_that_the_job_took_away_do_not_keep_a_tree():
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chown(place, 65534, 65534)

        subprocess.run([sys.executable, "-c", ERASE_AS_NOBODY, place], check=True)

        assert names(place) == []
