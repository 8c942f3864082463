"""Lay out a job's files on the host."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from pidispatch.errors import ConfigurationRefused, DiskFull
from pidispatch.runtime.jobfiles import JobFiles, JobFilesFault

NAME = "pi-job-0123abcd-1-1"
FILES = {"prompt.md": b"do \xff this", "event.json": b"{}", "agent/models.json": b"{}"}
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away or mount")
JOB = 12345 if os.geteuid() == 0 else os.geteuid()


@pytest.fixture
def job_files(tmp_path):
    return JobFiles(tmp_path / "state" / "jobs")


def names(place):
    return [entry.name for entry in Path(place).iterdir()]


def mode(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def owner(path):
    return Path(path).stat().st_uid


def test_a_jobs_files_are_readable_and_its_outbox_its_own(job_files, tmp_path):
    old = os.umask(0o077)
    try:
        paths = job_files.prepare(NAME, FILES, uid=JOB, gid=JOB)
    finally:
        os.umask(old)

    for name, content in FILES.items():
        path = f"{paths.job}/{name}"
        assert Path(path).read_bytes() == content
        assert (mode(path), owner(path)) == (0o444, os.geteuid())
    assert (mode(paths.job), mode(f"{paths.job}/agent"), owner(paths.job)) == (0o755, 0o755, os.geteuid())
    assert (mode(paths.outbox), owner(paths.outbox)) == (0o700, JOB)
    assert mode(tmp_path / "state" / "jobs") == mode(tmp_path / "state" / "jobs" / NAME) == 0o700


def test_a_job_has_a_session_of_its_own_to_write(job_files):
    fresh = job_files.prepare(NAME, FILES, uid=JOB, gid=JOB)
    session = Path(fresh.session, "current.jsonl")
    assert (mode(fresh.session), owner(fresh.session)) == (0o700, JOB)
    assert (mode(session), owner(session), session.read_bytes()) == (0o600, JOB, b"")
    session.unlink()
    session.symlink_to("/etc/passwd")

    again = job_files.prepare(NAME, FILES, uid=JOB, gid=JOB, session=b"what pi wrote")

    assert job_files.session(NAME) == again.session == fresh.session
    assert session.read_bytes() == b"what pi wrote"
    assert (names(again.session), owner(session)) == (["current.jsonl"], JOB)


def test_a_second_try_starts_afresh(job_files):
    paths = job_files.prepare(NAME, FILES, uid=JOB, gid=JOB)
    Path(paths.outbox, "old").write_text("left")

    job_files.prepare(NAME, {"prompt.md": b"new"}, uid=JOB, gid=JOB)

    assert names(paths.outbox) == []
    assert names(paths.job) == ["prompt.md"]


def test_leftovers_are_named_and_removed_once(job_files):
    assert job_files.leftovers() == []
    job_files.prepare(NAME, FILES, uid=JOB, gid=JOB)
    assert job_files.leftovers() == [NAME]

    job_files.remove(NAME)
    job_files.remove(NAME)

    assert job_files.leftovers() == []


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".", "..", "a\0", "/etc"])
def test_a_name_that_leads_elsewhere_is_never_used(job_files, name):
    with pytest.raises(ValueError):
        job_files.prepare(name, {}, uid=JOB, gid=JOB)
    with pytest.raises(ValueError):
        job_files.remove(name)


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a//b", "a/../../x", ".", ""])
def test_a_file_that_leads_elsewhere_is_never_written(job_files, path):
    with pytest.raises(ValueError):
        job_files.prepare(NAME, {path: b""}, uid=JOB, gid=JOB)


def test_a_directory_that_others_may_write_is_refused(tmp_path):
    place = tmp_path / "jobs"
    place.mkdir()
    place.chmod(0o777)

    with pytest.raises(ConfigurationRefused, match="can be written by others"):
        JobFiles(place).prepare(NAME, FILES, uid=JOB, gid=JOB)


def test_a_directory_that_is_a_link_or_a_file_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("")

    for name in ("link", "file"):
        with pytest.raises(ConfigurationRefused):
            JobFiles(tmp_path / name).check()


@as_root
def test_a_directory_of_somebody_else_is_refused(tmp_path):
    place = tmp_path / "jobs"
    place.mkdir(0o700)
    os.chown(place, 12345, 12345)

    with pytest.raises(ConfigurationRefused, match="belongs to user 12345"):
        JobFiles(place).check()


@as_root
def test_a_full_disk_is_named(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", place], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount here")
    try:
        with pytest.raises(DiskFull) as refusal:
            JobFiles(place).prepare(NAME, {"prompt.md": bytes(1024 * 1024)}, uid=JOB, gid=JOB)
    finally:
        subprocess.run(["umount", place], check=True)

    assert refusal.value.why == "disk-full"


def test_a_file_in_the_place_of_a_directory_is_a_fault_of_the_job(job_files):
    with pytest.raises(JobFilesFault):
        job_files.prepare(NAME, {"a": b"", "a/b": b""}, uid=JOB, gid=JOB)
