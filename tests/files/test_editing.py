"""A few bytes of an operator's file are changed among people and programs that change it too."""

import json
import os
import subprocess
import sys
import time

import pytest

from pidispatch.errors import ConfigurationRefused, FileInUse
from pidispatch.files import lockfile
from pidispatch.files import marks as editing
from pidispatch.files.lockfile import lock_file
from pidispatch.files.marks import edit


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "triggers.json"
    path.write_bytes(b"0")
    return path


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    monkeypatch.setattr(lockfile, "PAUSE", (0.0, 0.002))


def left(path):
    return sorted(each.name for each in path.parent.iterdir())


def lock_of(path):
    return path.with_name("triggers.json.lock")


def a_lock(path, age):
    lock_of(path).write_bytes(b"")
    then = time.time() - age
    os.utime(lock_of(path), (then, then))


def test_what_the_change_makes_is_written_and_nothing_is_left_behind(path):
    path.chmod(0o644)

    assert edit(path, lambda content: content + b"1")

    assert path.read_bytes() == b"01"
    assert path.stat().st_mode & 0o777 == 0o644
    assert left(path) == ["triggers.json"]


def test_a_change_that_changes_nothing_writes_nothing(path):
    before = path.stat()

    assert not edit(path, lambda content: content)

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_link_stays_a_link_and_its_target_gets_the_bytes(path, tmp_path):
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "file.json"
    path.rename(real)
    path.symlink_to("real/file.json")

    edit(path, lambda content: content + b"1")

    assert path.is_symlink()
    assert real.read_bytes() == b"01"
    assert left(path) == ["real", "triggers.json"]


def test_a_lock_that_somebody_holds_ends_the_wait_and_stays(path):
    a_lock(path, age=5)

    with pytest.raises(FileInUse):
        edit(path, lambda content: content + b"1")

    assert path.read_bytes() == b"0"
    assert left(path) == ["triggers.json", "triggers.json.lock"]


def test_a_lock_that_is_stale_is_taken_over(path):
    a_lock(path, age=11)

    assert edit(path, lambda content: content + b"1")

    assert left(path) == ["triggers.json"]


def test_a_lock_that_was_made_again_since_the_look_is_put_back(path, monkeypatch):
    a_lock(path, age=11)
    real_rename = type(path).rename

    def another_was_faster(self, target):
        lock_of(path).unlink()
        a_lock(path, age=0)
        return real_rename(self, target)

    monkeypatch.setattr(type(path), "rename", another_was_faster)
    monkeypatch.setattr(lockfile, "ATTEMPTS", 1)
    with pytest.raises(FileInUse), lock_file(path):
        pass

    assert left(path) == ["triggers.json", "triggers.json.lock"]


def test_a_writer_whose_lock_was_taken_over_writes_nothing_and_leaves_the_other_its_lock(path):
    def slow(content):
        lock_of(path).unlink()
        a_lock(path, age=0)
        return content + b"1"

    with pytest.raises(FileInUse):
        edit(path, slow)

    assert path.read_bytes() == b"0"
    assert lock_of(path).exists()


def test_a_directory_that_takes_no_lock_says_so_itself(path):
    lock_of(path).mkdir()
    with pytest.raises(FileInUse):
        edit(path, lambda content: content + b"1")
    with pytest.raises(ConfigurationRefused, match="cannot be written"):
        edit(path.parent / "missing" / "file", lambda content: content)


def test_an_edit_of_a_person_in_between_is_changed_and_not_lost(path):
    told = []

    def meanwhile(content):
        if not told:
            path.write_bytes(b"person ")
        told.append(content)
        return content + b"1"

    assert edit(path, meanwhile)

    assert path.read_bytes() == b"person 1"
    assert told == [b"0", b"person "]


def test_a_file_that_changes_all_the_time_is_left_to_the_others(path):
    numbers = iter(range(100))

    def meanwhile(content):
        path.write_bytes(f"{next(numbers)} ".encode())
        return content + b"!"

    with pytest.raises(FileInUse):
        edit(path, meanwhile)
    assert path.read_bytes() == f"{editing.TRIES - 1} ".encode()


def test_a_missing_file_and_one_that_is_too_large_are_refused(path):
    path.write_bytes(b" " * (1024 * 1024 + 1))
    with pytest.raises(ConfigurationRefused, match="too large"):
        edit(path, lambda content: content)
    path.unlink()
    with pytest.raises(ConfigurationRefused, match="not there"):
        edit(path, lambda content: content)
    assert left(path) == []


def test_a_change_that_fails_leaves_file_and_no_lock(path):
    def broken(_content):
        raise ConfigurationRefused(["it is not JSON"])

    with pytest.raises(ConfigurationRefused, match="not JSON"):
        edit(path, broken)

    assert left(path) == ["triggers.json"]


ADDS_ONE = """
import json, sys
from pathlib import Path
from pidispatch.errors import FileInUse
from pidispatch.files import edit

path, times = Path(sys.argv[1]), int(sys.argv[2])
done = 0
while done < times:
    try:
        done += edit(path, lambda content: json.dumps(json.loads(content) + 1).encode())
    except FileInUse:
        pass
"""


def test_processes_that_count_together_lose_nothing(path):
    counting = [subprocess.Popen([sys.executable, "-c", ADDS_ONE, path, "10"]) for _ in range(3)]

    assert [process.wait(60) for process in counting] == [0, 0, 0]

    assert json.loads(path.read_bytes()) == 30
    assert left(path) == ["triggers.json"]
