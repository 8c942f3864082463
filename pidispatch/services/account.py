"""The system user that servers run as, with the directories it must own or reach."""

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from pidispatch.services.faults import OutOfReach, ServiceFailed


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int


def server_account(*names: str) -> Account | None:
    """The first user of `names` (pidispatch, nobody) that exists; None when we are not root and stay who we are."""
    if os.geteuid() != 0:
        return None
    for name in names or ("pidispatch", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise ServiceFailed("services", "there is neither a user `pidispatch` nor `nobody` to run servers as")


def give_directory(path: Path, account: Account | None) -> None:
    """Make `path` a 0700 directory of `account` (of the caller when None), with all it holds."""
    path.mkdir(mode=0o700, exist_ok=True)
    if account is not None and path.stat().st_uid != account.uid:
        for _, folders, files, folder in os.fwalk(path):
            for name in (*folders, *files):
                os.chown(name, account.uid, account.gid, dir_fd=folder, follow_symlinks=False)
        os.chown(path, account.uid, account.gid)
    path.chmod(0o700)


def require_reach(path: Path, account: Account | None) -> None:
    """Raises OutOfReach, naming the directory in the way, when `account` may not walk to `path`."""
    barrier = barrier_on_the_way(path, account)
    if account is not None and barrier is not None:
        raise OutOfReach(path, barrier, account.name)


def barrier_on_the_way(path: Path, account: Account | None) -> Path | None:
    """The first directory above `path` that `account` may not enter."""
    if account is None:
        return None
    resolved = path.resolve()
    return next((above for above in reversed(resolved.parents) if not _may_enter(above, account)), None)


def _may_enter(directory: Path, account: Account) -> bool:
    status = directory.stat()
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)
