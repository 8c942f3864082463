"""Open the folder a run works in, without trusting its name or its owner."""

import errno
import os
import shlex
from pathlib import Path

from pidispatch.domain import words
from pidispatch.domain.identity import folder_mutex
from pidispatch.domain.run import Workspace
from pidispatch.domain.sandbox import Inode
from pidispatch.errors import FolderRefused
from pidispatch.ports import LocalFolder

MOST_AROUND = 256
_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}

_REASONS = {
    errno.ENOENT: (words.LOCAL_FOLDER_MISSING, "does not exist"),
    errno.ELOOP: (words.LOCAL_FOLDER_MISSING, "is a loop of symbolic links"),
    errno.ENAMETOOLONG: (words.LOCAL_FOLDER_MISSING, "has too long a name"),
    errno.ENOTDIR: (words.LOCAL_FOLDER_NOT_A_DIRECTORY, "is not a directory"),
    errno.EACCES: (words.LOCAL_FOLDER_UNREADABLE, "may not be read by the worker's user"),
}


def open_folder(path: bytes | str, *, worker_uid: int) -> LocalFolder:
    """Look at a folder through an open descriptor. Links are followed: two names of one folder are one.

    Raises FolderRefused: `local-folder-missing`, `local-folder-not-a-directory`, `local-folder-unreadable`,
    `job-user-unmappable` (the job runs as the folder's owner, which must be neither root nor, for a worker
    that is not root, anybody else).
    """
    name = os.fsdecode(path)
    try:
        resolved, facts, around = _open(name)
    except OSError as error:
        reason, problem = _REASONS.get(error.errno or 0, (words.LOCAL_FOLDER_UNREADABLE, str(error.strerror)))
        raise FolderRefused(reason, f"{name!r} {problem}") from error
    except ValueError as error:  # NUL, or lone surrogates that stand for no byte
        raise FolderRefused(words.LOCAL_FOLDER_MISSING, f"{name!r} is not the name of a folder") from error
    _refuse_unspeakable(resolved)
    _refuse_owner(resolved, facts.st_uid, worker_uid)
    return LocalFolder(
        path=resolved,
        device=facts.st_dev,
        inode=facts.st_ino,
        uid=facts.st_uid,
        gid=facts.st_gid,
        basename=Path(resolved).name,
        around=around,
    )


def folder_change(workspace: Workspace, *, host: str) -> str | None:
    """`ports.FolderChange`: compare what the path leads to now with what was admitted."""
    path = os.fsdecode(workspace.folder)
    try:
        facts = Path(path).stat()
    except OSError as error:
        if error.errno in _MISSING:
            return f"{path!r} is gone"
        raise
    if folder_mutex(host, facts.st_dev, facts.st_ino) != workspace.mutex:
        return f"{path!r} is another folder now"
    if workspace.owner not in {None, facts.st_uid}:
        return f"{path!r} was given to user {facts.st_uid}"
    return None


def _open(name: str) -> tuple[str, os.stat_result, tuple[Inode, ...]]:
    """The real path and the facts of one and the same directory, and what it lies in, or OSError."""
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        os.stat(".", dir_fd=descriptor)  # readable without being searchable is of no use
        resolved = os.path.realpath(name)
        if not os.path.samestat(facts, os.lstat(resolved)):
            raise OSError(errno.ENOENT, "was moved while it was opened")
        around = _around(descriptor)
    finally:
        os.close(descriptor)
    return resolved, facts, around


def _around(descriptor: int) -> tuple[Inode, ...]:
    """The directories that an opened one lies in, by their identities: no name in between can be exchanged."""
    found: list[Inode] = []
    current = os.dup(descriptor)
    try:
        facts = os.fstat(current)
        while True:
            above = os.open("..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=current)
            os.close(current)
            current, below, facts = above, facts, os.fstat(above)
            if os.path.samestat(below, facts):
                return tuple(found)
            if len(found) == MOST_AROUND:
                raise OSError(errno.ENAMETOOLONG, "lies too deep")
            found.append((facts.st_dev, facts.st_ino))
    finally:
        os.close(current)


def _refuse_unspeakable(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        # The engine's API is JSON; it would look for another name.
        raise FolderRefused(
            words.LOCAL_FOLDER_UNREADABLE,
            f"{path!r} has a name that is not UTF-8, which the Docker engine cannot be told; rename it",
        ) from error


def _refuse_owner(path: str, owner: int, worker_uid: int) -> None:
    if owner == 0:
        user = "<user>"
        problem = "belongs to root, and no job runs as root"
    elif worker_uid not in {0, owner}:
        user = str(worker_uid)
        problem = f"belongs to user {owner}, and the worker (user {worker_uid}) may start jobs only as itself"
    else:
        return
    raise FolderRefused(
        words.JOB_USER_UNMAPPABLE,
        f"{path!r} {problem}; give the folder away: chown -R {user} {shlex.quote(path)}",
    )
