"""Replace a file whole, or not at all."""

import fcntl
import json
import os
import stat
import subprocess
import sys

import pytest

from pidispatch.errors import ConfigurationRefused
from pidispatch.files import FileChanged, FileInUse, replace, replacing


@pytest.fixture
def path(tmp_path):
    return tmp_path / "settings.json"


def left(path):
    return sorted(each.name for each in path.parent.iterdir())


def test_a_file_is_made_private_with_its_directory(tmp_path):
    path = tmp_path / "home" / "settings.json"

    replace(path, None, b"{}")

    assert path.read_bytes() == b"{}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert left(path) == [".settings.json.lock", "settings.json"]


def test_what_is_replaced_keeps_its_mode_and_owner(path):
    path.write_bytes(b"old")
    path.chmod(0o644)
    if os.geteuid() == 0:
        os.chown(path, 12345, 12346)
    before = path.stat()

    replace(path, b"old", b"new")

    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(("there", "expected"), [(b"other", b"old"), (None, b"old"), (b"other", None)])
def test_a_file_that_changed_meanwhile_stays(path, there, expected):
    if there is not None:
        path.write_bytes(there)

    with pytest.raises(FileChanged, match="changed by somebody else"):
        replace(path, expected, b"new")

    assert (path.read_bytes() if path.exists() else None) == there


def test_a_link_stays_a_link(path, tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    path.symlink_to("real")

    replace(path, b"old", b"new")

    assert path.is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_held_lock_ends_the_wait(path, monkeypatch):
    monkeypatch.setattr(replacing, "PATIENCE", 0.05)
    with path.with_name(".settings.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(FileInUse):
            replace(path, None, b"new")

    assert not path.exists()


def test_a_failed_write_leaves_the_old_file_and_no_draft(path, monkeypatch):
    path.write_bytes(b"old")

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(replacing.os, "fsync", full)
    with pytest.raises(ConfigurationRefused, match="cannot be written: No space left"):
        replace(path, b"old", b"new")

    assert path.read_bytes() == b"old"
    assert left(path) == [".settings.json.lock", "settings.json"]


def test_a_directory_in_the_way_is_refused(path):
    path.mkdir()

    with pytest.raises(ConfigurationRefused):
        replace(path, None, b"new")


ADDS_ONE = """
import json, sys
from pathlib import Path
from pidispatch.files import FileChanged, replace

path, times = Path(sys.argv[1]), int(sys.argv[2])
done = 0
while done < times:
    old = path.read_bytes()
    try:
        replace(path, old, json.dumps(json.loads(old) + 1).encode())
        done += 1
    except FileChanged:
        pass
"""


def test_processes_that_count_together_lose_nothing(path):
    path.write_bytes(b"0")
    command = [sys.executable, "-c", ADDS_ONE, str(path), "50"]

    counting = [subprocess.Popen(command) for _ in range(3)]

    assert [each.wait(60) for each in counting] == [0, 0, 0]
    assert json.loads(path.read_bytes()) == 150
