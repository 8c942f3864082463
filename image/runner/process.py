"""Make this process private to itself, and pi's start faster."""

# ruff: noqa: PTH102, PTH208, PTH211
# pathlib costs milliseconds to import.

from __future__ import annotations

import contextlib
import os

_PR_SET_DUMPABLE = 4
_CACHE_UID = 1000


def hide_from_same_user() -> None:
    """No tracing, no /proc/<pid>/mem or fd for others of our uid: this process holds the report's key."""
    import ctypes  # noqa: PLC0415 - 1 ms, and only the box needs it

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def compile_cache(baked: str, scratch: str) -> str | None:
    """Where node finds V8's cache for this uid: its directory's name ends in the uid that wrote it."""
    uid = os.getuid()
    try:
        names = os.listdir(baked)
        if uid == _CACHE_UID:
            return baked
        os.mkdir(scratch, 0o700)
        for name in names:
            stem = name.rpartition("-")[0]
            os.symlink(f"{baked}/{name}", f"{scratch}/{stem}-{uid}")
    except OSError:
        return None
    return scratch
