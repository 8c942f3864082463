"""Give an opened directory a second place that nobody else can exchange, by a bind mount."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from pidispatch.domain.sandbox import Inode
from pidispatch.runtime.mounting import (
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NODIRATIME,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_RELATIME,
    MS_REMOUNT,
    mount,
    unmount,
)

log = structlog.get_logger(__name__)

_KEPT = {
    os.ST_RDONLY: MS_RDONLY,
    os.ST_NOEXEC: MS_NOEXEC,
    os.ST_NOATIME: MS_NOATIME,
    os.ST_NODIRATIME: MS_NODIRATIME,
    os.ST_RELATIME: MS_RELATIME,
}
_MOST_LAYERS = 16
_NOT_ALLOWED = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EINVAL}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_POINT = "w"


class Bind(NamedTuple):
    """`under` is what whoever does not see the mount finds at `path`."""

    path: str
    under: Inode


class BindPlaces:
    """Places for binds below `root` (0700): `<root>/<name>/w`, whose `<name>` is locked as long as its holder lives.

    A bind stays for as long as a box needs to start, and no longer: who removes a directory by its name, with a bind of
    a repository somewhere in it, removes the repository. Nothing here removes more than empty directories.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def bound(self, name: str, descriptor: int) -> Iterator[Bind]:
        """A bind of the opened directory, without set-uid programs and devices.

        Raises OSError; PermissionError where this process may not mount.
        """
        place = self._root / name
        holder = self._taken(place)
        try:
            point = place / _POINT
            point.mkdir(0o700)
            under = point.lstat()
            _bind(descriptor, os.fspath(point))
            yield Bind(os.fspath(point), (under.st_dev, under.st_ino))
        finally:
            _cleared(place)
            os.close(holder)

    def sweep(self) -> int:
        """Undo the binds of processes that are gone; returns how many places were cleared."""
        try:
            root = os.open(self._root, _DIRECTORY)
        except OSError:
            return 0
        try:
            fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return sum(self._swept(place) for place in self._root.iterdir())
        except BlockingIOError:  # a place is being made: the next sweep is soon enough
            return 0
        finally:
            os.close(root)

    def _taken(self, place: Path) -> int:
        self._root.mkdir(0o700, parents=True, exist_ok=True)
        facts = self._root.lstat()
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise OSError(errno.ENOTDIR, f"{self._root} is not a directory of this user alone")
        root = os.open(self._root, _DIRECTORY)
        try:
            fcntl.flock(root, fcntl.LOCK_SH)
            with suppress(FileExistsError):
                place.mkdir(0o700)
            holder = os.open(place, _DIRECTORY)
            try:
                fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(holder)
                raise
        finally:
            os.close(root)
        _unbind(os.fspath(place / _POINT))
        with suppress(FileNotFoundError):
            (place / _POINT).rmdir()
        return holder

    def _swept(self, place: Path) -> bool:
        try:
            holder = os.open(place, _DIRECTORY)
        except OSError:
            return False
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _cleared(place)
        except BlockingIOError:
            return False
        finally:
            os.close(holder)


def _cleared(place: Path) -> bool:
    try:
        _unbind(os.fspath(place / _POINT))
        with suppress(FileNotFoundError):
            (place / _POINT).rmdir()
        place.rmdir()
    except OSError as error:
        log.warning("bind_left", place=os.fspath(place), problem=str(error))
        return False
    return True


def _bind(descriptor: int, target: str) -> None:
    _mount(f"/proc/self/fd/{descriptor}", target, MS_BIND | MS_REC)
    # What is not repeated here would be taken off the mount.
    had = os.statvfs(target).f_flag
    kept = sum(flag for seen, flag in _KEPT.items() if had & seen)
    _mount(None, target, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | kept)


def _mount(source: str | None, target: str, flags: int) -> None:
    try:
        mount(source, target, flags)
    except OSError as error:
        code = error.errno or 0
        kind = PermissionError if code in _NOT_ALLOWED else OSError
        raise kind(code, f"cannot bind {target}: {os.strerror(code)}") from error


def _unbind(target: str) -> None:
    """Whatever is mounted there, one over the other; nothing is no fault."""
    with suppress(OSError):
        for _ in range(_MOST_LAYERS):
            unmount(target)
