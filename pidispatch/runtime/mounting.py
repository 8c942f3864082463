"""Mount and unmount by the kernel's own calls: no program between, and a path is given as it is."""

import ctypes
import os
from functools import cache

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
