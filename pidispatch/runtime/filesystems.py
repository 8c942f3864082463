"""Ask the kernel how much room the file systems have."""

import ctypes
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pidispatch.domain.box.disks import FileSystem

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME = 0x20, 0x400, 0x800
MS_BIND, MS_REC, MS_RELATIME = 0x1000, 0x4000, 0x200000
_MNT_DETACH, _UMOUNT_NOFOLLOW = 0x2, 0x8


def mount(source: str | None, target: str, flags: int, *, kind: str | None = None, options: str = "") -> None:
    """As the system call does; `kind` is a file system's name, `options` its own. Raises OSError."""
    given = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    _checked(_libc().mount(*given, ctypes.c_ulong(flags), options.encode() or None), target)


def unmount(target: str) -> None:
    """Detach the uppermost mount at `target`, which is no link. Raises OSError: EINVAL where there is none."""
    _checked(_libc().umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW), target)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(answer: int, target: str) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


PROCESSES = "/proc"  # the kernel's file system of them: /proc/<pid>/root leads to what a process has there


def measure(places: Mapping[str, str]) -> Sequence[FileSystem]:
    """One entry for each file system that holds some of `places` (word for people → path), in their order.

    Of a path that is not there its nearest directory counts, unless it led through a process that has ended. What
    cannot be looked at is left out.
    """
    found: dict[int, FileSystem] = {}
    for word, path in places.items():
        try:
            there = _nearest(Path(path))
            if there.is_relative_to(PROCESSES) and str(there) != path:
                continue
            device, facts = there.stat().st_dev, os.statvfs(there)
        except OSError:
            continue
        earlier = found.get(device)
        found[device] = FileSystem(
            device=device,
            places=(*(earlier.places if earlier else ()), word),
            path=earlier.path if earlier else str(there),
            size=facts.f_blocks * facts.f_frsize,
            free=facts.f_bavail * facts.f_frsize,
            names=facts.f_files,
            names_free=facts.f_favail,
        )
    return list(found.values())


def _nearest(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
