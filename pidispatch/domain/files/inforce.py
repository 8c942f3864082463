"""What of an operator's files is in force: their last good content, and what is wrong with them since."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256


class FileName(StrEnum):
    """What files are called in the log and where they are kept; those that are judged together have one name."""

    SCOPED_LIMITS = "scoped_limits"
    PAUSE_WINDOWS = "pause_windows"
    SETTINGS = "settings_overlay"
    TRIGGERS = "triggers"
    PRICES = "prices_file"
    PROVIDERS = "providers"
    EGRESS = "egress"


GONE = "is not there any more"

Contents = tuple[bytes | None, ...]
"""What the files hold that are judged together; None for one that is not there."""


@dataclass(frozen=True, slots=True)
class KeptContent:
    """What was last good, and since when it is in force. `contents` is None where it was not kept: it holds a secret."""

    contents: Contents | None
    digest: str
    since: datetime


@dataclass(frozen=True, slots=True)
class FileLook:
    """The files at one moment: their contents when these are good, else the problems."""

    contents: Contents | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InForce:
    """What is in force after a look. `problems` are those of the files, `since` when they stopped being what holds."""

    kept: KeptContent | None = None
    problems: tuple[str, ...] = ()
    since: datetime | None = None

    def after(self, found: FileLook, now: datetime) -> "InForce":
        """A good content takes the place of what was; a bad one changes nothing but what is told of it."""
        if found.contents is None:
            return InForce(self.kept, found.problems, self.since or now)
        digest = digest_of(found.contents)
        if self.kept is not None and self.kept.digest == digest:
            return InForce(self.kept)
        return InForce(KeptContent(found.contents, digest, now))

    def without_contents(self) -> "InForce":
        """The same, for a place where a secret must not be."""
        return self if self.kept is None else replace(self, kept=replace(self.kept, contents=None))


def digest_of(contents: Contents) -> str:
    """A sha256 that differs whenever one of the files does, or is there or not."""
    told = sha256()
    for each in contents:
        told.update(b"-" if each is None else b"%d:" % len(each) + each)
    return told.hexdigest()


def not_in_force(found: InForce, *, strict: bool = False) -> Sequence[str]:
    """A sentence for each problem, and what holds. `strict`: of a bad edit no earlier content stands in."""
    gone = all(problem.endswith(GONE) for problem in found.problems)
    return [f"{problem}; {what_holds(found, strict=strict and not gone)}" for problem in found.problems]


def what_holds(found: InForce, *, strict: bool = False) -> str:
    """`since …, the content of … holds`."""
    since = "" if found.since is None else f"since {_told(found.since)}, "
    if strict:
        return f"{since}every run is refused until it is right"
    if found.kept is None:
        return "nothing stands in for it: what needs it does not start"
    return f"{since}the content of {_told(found.kept.since)} holds"


def _told(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
