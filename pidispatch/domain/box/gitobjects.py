"""Prove the content of a file at a commit by git's own hashes, whoever handed its objects over."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

_HASHES = {40: hashlib.sha1, 64: hashlib.sha256}
_HEADER = re.compile(rb"[0-9a-f]{40,64} (commit|tree|blob) ([0-9]{1,12})")
_LONGEST_HEADER = 400
_DIRECTORY = b"40000"
_PLAIN_FILE = b"100644"
_LONGEST_MODE = 7

Objects = Mapping[str, tuple[bytes, bytes]]
"""The kind and content of each object, by the name its content has."""


def objects_of(batch: bytes, commit: str) -> Objects:
    """The objects that `git cat-file --batch` printed. Names are computed here: what is said of them is not believed."""
    return {_name(kind, content, commit): (kind, content) for kind, content in _printed(batch)}


def file_at(objects: Objects, commit: str, path: Sequence[bytes]) -> bytes | None:
    """The file at `path` in the tree of `commit`; None if it is absent, not a plain file (100644), or not proven."""
    kind, content = objects.get(commit, (b"", b""))
    if kind != b"commit" or not content.startswith(b"tree "):
        return None
    name = content[5 : 5 + len(commit)].decode(errors="replace")
    for depth, part in enumerate(path, start=1):
        kind, content = objects.get(name, (b"", b""))
        wanted = _PLAIN_FILE if depth == len(path) else _DIRECTORY
        entries = {entry: (mode, child) for mode, entry, child in _entries(content, len(commit) // 2)}
        mode, name = entries.get(part, (b"", "")) if kind == b"tree" else (b"", "")
        if mode != wanted:
            return None
    kind, content = objects.get(name, (b"", b""))
    return content if kind == b"blob" else None


def _name(kind: bytes, content: bytes, commit: str) -> str:
    return _HASHES[len(commit)](kind + b" %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _printed(batch: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while (end := batch.find(b"\n", at, at + _LONGEST_HEADER)) >= 0:
        header = _HEADER.fullmatch(batch, at, end)
        at = end + 1
        if header is None:
            continue  # `<name> missing`
        content = batch[at : at + int(header[2])]
        if len(content) < int(header[2]):
            return
        yield header[1], content
        at += len(content) + 1


def _entries(tree: bytes, size: int) -> Iterator[tuple[bytes, bytes, str]]:
    """Mode, name and object of each entry; stops where the bytes are no tree."""
    at = 0
    while at < len(tree):
        space = tree.find(b" ", at, at + _LONGEST_MODE)
        end = tree.find(b"\0", space + 1)
        if space < 0 or end < 0 or end + 1 + size > len(tree):
            return
        yield tree[at:space], tree[space + 1 : end], tree[end + 1 : end + 1 + size].hex()
        at = end + 1 + size
