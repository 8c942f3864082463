"""A disk so small that a test can fill it."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs at `path`. `fill` leaves room for nothing, not even for a directory; `free` takes that back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fillers: list[Path] = []

    def fill(self) -> None:
        filler = self.path / "filler"
        self._fillers.append(filler)
        with filler.open("wb", buffering=0) as file:
            _until_full(lambda: file.write(bytes(4096)))
        _until_full(self._one_more_name)

    def free(self) -> None:
        while self._fillers:
            self._fillers.pop().unlink(missing_ok=True)

    def _one_more_name(self) -> None:
        self._fillers.append(self.path / f"filler-{len(self._fillers)}")
        self._fillers[-1].touch()


def _until_full(write) -> None:
    for _ in range(10_000):
        try:
            write()
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017 - anything else is no full disk
            return
    raise AssertionError("it does not get full")


@contextmanager
def small_disk(path: Path, *, owner: int | None = None) -> Iterator[SmallDisk]:
    """Skips where nothing may be mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    path.mkdir(parents=True, exist_ok=True)
    options = f"size=256k,nr_inodes=64,mode=0700,uid={os.geteuid() if owner is None else owner}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "none", path], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("may not mount here")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", path], check=True)


@contextmanager
def ext4_disk(path: Path, *, size: int) -> Iterator[Path]:
    """A file system of `size` bytes at `path`, as disks have them: names and bytes run out. Skips where none can be made.

    Its image lies in memory, so that filling it fills no disk.
    """
    if os.geteuid() != 0 or shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
        pytest.skip("only root can make and mount a file system")
    path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pd-disk-", dir=_in_memory()) as folder:
        image = Path(folder, "image")
        with image.open("wb") as file:
            file.truncate(size)
        tools = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-F", image], check=True, env=tools)
        mounted = subprocess.run(
            ["mount", "-o", "loop", image, path], check=False, capture_output=True, env=tools
        )
        if mounted.returncode:
            pytest.skip(f"may not mount a loop device here: {mounted.stderr.decode()}")
        try:
            yield path
        finally:
            subprocess.run(["umount", "-l", path], check=True)


def _in_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def take_names_but(path: Path, left: int) -> None:
    """Take all names (inodes) of the file system at `path` but `left`."""
    folder = path / "names"
    folder.mkdir()
    for number in range(os.statvfs(path).f_ffree - left):
        os.mknod(folder / f"{number}")


def fill_but(path: Path, left: int) -> Path:
    """Take all room of the file system at `path` but `left` bytes, in one file that is returned."""
    facts = os.statvfs(path)
    filler = path / "filler"
    slack = 16 * 1024 * 1024  # what describes the file takes room as well
    with filler.open("wb", buffering=0) as file:
        os.posix_fallocate(file.fileno(), 0, facts.f_bavail * facts.f_frsize - max(left, slack))
        if left == 0:
            file.seek(0, os.SEEK_END)
            _until_full(lambda: file.write(bytes(16 * 1024)))
    return filler
