"""Read how a folder's owner has set up git, as far as it decides what counts as a change."""

import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pidispatch.domain.box.gitconfig import Setting, settings_of

MOST_BYTES = 256 * 1024
MOST_FILES = 16
SYSTEM = Path("/etc/gitconfig")
_CHOICES = {
    "core.autocrlf": {"true", "false", "input"},
    "core.eol": {"lf", "crlf", "native"},
    "core.filemode": {"true", "false"},
    "core.ignorecase": {"true", "false"},
}


@dataclass(frozen=True, slots=True)
class OwnerView:
    """A configuration to be git's global one, and the two files that it names by their content."""

    settings: tuple[Setting, ...] = ()
    ignore: bytes = b""
    attributes: bytes = b""


NOBODY = OwnerView()
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Home:
    uid: int
    home: Path
    config: Path


def owner_view(uid: int, environment: Mapping[str, str] = NOTHING) -> OwnerView:
    """What the owner's git would heed: the global ignore and attributes files, and how line ends are kept.

    Never a filter, a hook or a program. What cannot be read is left out, which only makes a folder look less clean.
    `environment` is that of whoever asks.
    """
    home = _home(uid, environment)
    found: dict[str, str] = {}
    seen: list[Path] = []
    for file in (SYSTEM, home.config / "config", home.home / ".gitconfig"):
        found.update(_settings(file, home, seen))
    ignore = _path(found.get("core.excludesfile"), home, default=home.config / "ignore")
    attributes = _path(found.get("core.attributesfile"), home, default=home.config / "attributes")
    kept = tuple((name, found[name]) for name, words in _CHOICES.items() if found.get(name) in words)
    return OwnerView(kept, _read(ignore, uid) or b"", _read(attributes, uid) or b"")


def _home(uid: int, environment: Mapping[str, str]) -> _Home:
    """An owner without an account is judged as whoever asks: nobody else could have set anything up."""
    own = Path(environment.get("HOME") or "/nonexistent")
    own_config = Path(environment.get("XDG_CONFIG_HOME") or own / ".config") / "git"
    if uid == os.geteuid() and "HOME" in environment:
        return _Home(uid, own, own_config)
    try:
        home = Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        return _Home(os.geteuid(), own, own_config)
    return _Home(uid, home, home / ".config" / "git")


def _settings(file: Path, home: _Home, seen: list[Path]) -> Iterator[Setting]:
    """Those of a file and of the files that it includes without a condition."""
    if file in seen or len(seen) == MOST_FILES:
        return
    seen.append(file)
    for name, value in settings_of(_read(file, home.uid) or b""):
        if name == "include.path":
            yield from _settings(_path(value, home, default=file, beside=file.parent), home, seen)
        yield name, value


def _path(value: str | None, home: _Home, *, default: Path, beside: Path | None = None) -> Path:
    if not value or "\0" in value:
        return default
    if value.startswith("~/"):
        return home.home / value[2:]
    return (home.home if beside is None else beside) / value


def _read(path: Path, uid: int) -> bytes | None:
    """A regular file that is the owner's, or that root lets everybody read: a link may lead anywhere."""
    try:
        looked_at = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            facts = os.fstat(looked_at)
            theirs = facts.st_uid == uid or (facts.st_uid == 0 and facts.st_mode & stat.S_IROTH)
            if not stat.S_ISREG(facts.st_mode) or not theirs or facts.st_size > MOST_BYTES:
                return None
            with Path(f"/proc/self/fd/{looked_at}").open("rb") as file:
                return file.read(MOST_BYTES)
        finally:
            os.close(looked_at)
    except (OSError, ValueError):
        return None
