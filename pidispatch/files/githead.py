"""Read which commit a folder's HEAD names, from its files alone: git runs nowhere, and no link is followed."""

import re
from contextlib import ExitStack

from pidispatch.files.untrusted import NotRegular, TooLarge, directory, read_regular

_COMMIT = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REFERENCE = re.compile(rb"ref: (refs(?:/[^\x00-\x20\x7f/]+)+)")
_REFERENCE_BYTES = 4096
_PACKED_BYTES = 16 * 1024 * 1024
_DEEPEST = 5  # references that name another reference


def head_commit(folder: str) -> str | None:
    """The full name of the commit, None when the files do not say: no repository, no commit, or refs kept otherwise.

    It is the folder's word about itself; what it is good for is that it cannot change after it was read.
    """
    try:
        with directory(folder) as root, directory(".git", below=root) as repository:
            return _resolved(repository)
    except (OSError, ValueError):
        return None


def _resolved(repository: int) -> str | None:
    name = b"HEAD"
    for _ in range(_DEEPEST):
        said = _reference(repository, name)
        if said is None:
            return _packed(repository, name)
        if _COMMIT.fullmatch(said):
            return said.decode()
        further = _REFERENCE.fullmatch(said)
        if further is None:
            return None
        name = further[1]
    return None


def _reference(repository: int, name: bytes) -> bytes | None:
    *parents, last = name.split(b"/")
    if not {b".", b".."}.isdisjoint((*parents, last)):
        return b""
    try:
        with ExitStack() as opened:
            below = repository
            for parent in parents:
                below = opened.enter_context(directory(parent, below=below))
            return read_regular(last, below=below, most=_REFERENCE_BYTES).rstrip()
    except (OSError, NotRegular, TooLarge):
        return None


def _packed(repository: int, name: bytes) -> str | None:
    try:
        packed = b"\n" + read_regular("packed-refs", below=repository, most=_PACKED_BYTES) + b"\n"
    except (NotRegular, TooLarge):
        return None
    end = packed.find(b" " + name + b"\n")
    found = packed[packed.rfind(b"\n", 0, end) + 1 : end] if end >= 0 else b""
    return found.decode() if _COMMIT.fullmatch(found) else None
