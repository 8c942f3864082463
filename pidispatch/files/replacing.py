"""Replace a file whole, unless somebody else changed it meanwhile."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from pidispatch.errors import ConfigurationRefused, FileInUse, PidispatchError
from pidispatch.files.reading import read

PATIENCE = 5.0  # seconds to wait for another command that replaces the same file


class FileChanged(PidispatchError):
    """The file is not what it was when it was read: another edit came first, and stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} was changed by somebody else meanwhile; nothing was written, try again")


def replace(path: Path, expected: bytes | None, new: bytes) -> None:
    """Put `new` in place of `expected` (None: no file), so that every reader sees the one or the other whole.

    A link is followed; mode and, for root, owner stay. On return it is on disk. Raises FileChanged, FileInUse,
    ConfigurationRefused when it cannot be written.
    """
    try:
        target = path.resolve()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(target):
            if read(target).data != expected:
                raise FileChanged(path)
            swap(target, new)
    except OSError as error:
        raise ConfigurationRefused([f"{path}: cannot be written: {error.strerror}"]) from error


@contextlib.contextmanager
def _locked(target: Path) -> Iterator[None]:
    # The lock is a file of its own: the target is another file after each rename. It stays, since removing it races.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(target.with_name(f".{target.name}.lock"), flags, 0o600)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _try_lock(descriptor):
            if time.monotonic() >= deadline:
                raise FileInUse(target)
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def swap(target: Path, new: bytes) -> None:
    """Put `new` in the target's place by a rename; mode and, for root, owner stay. The caller holds a lock."""
    draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(new)
            _keep_owner_and_mode(target, descriptor)
            file.flush()
            os.fsync(descriptor)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _keep_owner_and_mode(target: Path, descriptor: int) -> None:
    try:
        found = target.stat()
    except FileNotFoundError:
        return
    if os.geteuid() == 0:
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, found.st_mode & 0o777)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
