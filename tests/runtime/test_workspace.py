"""Which folders a job may work in."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pidispatch.errors import FolderRefused
from pidispatch.runtime.workspace import open_folder

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
ME = os.geteuid() or 12345


@pytest.fixture
def folder(tmp_path):
    return owned(tmp_path / "folder")


def owned(path, uid=ME):
    path.mkdir()
    if os.geteuid() == 0:
        os.chown(path, uid, uid)
    return path


def refusal(path, worker_uid=None):
    with pytest.raises(FolderRefused) as refused:
        open_folder(path, worker_uid=os.geteuid() if worker_uid is None else worker_uid)
    return refused.value


def test_a_folder_is_known_by_its_identity_and_owner(folder):
    found = open_folder(str(folder), worker_uid=os.geteuid())

    facts = folder.stat()
    assert (found.device, found.inode) == (facts.st_dev, facts.st_ino)
    assert (found.uid, found.gid) == (facts.st_uid, facts.st_gid)
    assert (found.path, found.basename) == (str(folder.resolve()), "folder")


def test_a_link_and_its_folder_are_one(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)

    assert open_folder(str(link), worker_uid=os.geteuid()) == open_folder(
        os.fsencode(folder), worker_uid=os.geteuid()
    )


@pytest.mark.parametrize("name", ["with space", "with\nnewline", "a:colon", "-dash", "ünï", "\"quote'"])
def test_any_name_in_utf8_will_do(tmp_path, name):
    found = open_folder(str(owned(tmp_path / name)), worker_uid=os.geteuid())

    assert found.basename == name


def test_a_missing_folder_is_refused(tmp_path):
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")

    for name in ("none", "dangling", "loop", "x" * 5000):
        assert refusal(str(tmp_path / name)).reason == "local-folder-missing"


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800", b"a\0b"])
def test_what_is_no_name_is_refused(name):
    assert refusal(name).reason == "local-folder-missing"


def test_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")

    for name in ("file", "link", "file/below"):
        assert refusal(str(tmp_path / name)).reason == "local-folder-not-a-directory"


def test_a_named_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert refusal(str(tmp_path / "pipe")).reason == "local-folder-not-a-directory"


def test_a_name_the_engine_cannot_be_told_is_refused(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(path)).mkdir()

    assert refusal(path).reason == "local-folder-unreadable"


@as_root
def test_a_root_owned_folder_is_refused_with_the_way_out(tmp_path):
    said = refusal(str(owned(tmp_path / "it's", uid=0)))

    assert said.reason == "job-user-unmappable"
    assert "chown -R <user> " in str(said)
    assert "it'\"'\"'s" in str(said)  # as a shell takes it


def test_somebody_elses_folder_is_refused_unless_the_worker_is_root(folder):
    owner = folder.stat().st_uid

    said = refusal(str(folder), worker_uid=owner + 1)

    assert said.reason == "job-user-unmappable"
    assert f"chown -R {owner + 1} " in str(said)
    assert open_folder(str(folder), worker_uid=owner).uid == owner
    assert open_folder(str(folder), worker_uid=0).uid == owner


OPEN_AS_NOBODY = """
import os, sys
from pidispatch.errors import FolderRefused
from pidispatch.runtime.workspace import open_folder
os.setgid(65534); os.setuid(65534)
try:
    open_folder(sys.argv[1], worker_uid=65534)
except FolderRefused as refused:
    print(refused.reason)
"""


@as_root
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_an_unreadable_folder_is_refused(tmp_path, mode):
    import tempfile

    place = tempfile.mkdtemp(dir="/tmp")
    try:
        os.chown(place, 65534, 65534)
        Path(place).chmod(mode)
        found = subprocess.run(
            [sys.executable, "-c", OPEN_AS_NOBODY, place], capture_output=True, text=True, check=True
        )
    finally:
        shutil.rmtree(place)

    assert found.stdout.strip() == "local-folder-unreadable"
