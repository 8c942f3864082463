"""Say of a session, which an agent could write to, whether it is kept and whether a later run goes on with it."""

import json
from dataclasses import dataclass

from pidispatch.domain.sandbox import WORKSPACE_DIR

PI_VERSION_LABEL = "dev.pi-dispatch.pi-version"
LONGEST_HEADER = 64 * 1024

# Words of `runs.session_reason`; those that the reference has are its.
RESUMED = "resumed"
ABSENT = "absent"
VERSION_CHANGED = "pi-version-changed"
NO_VERSION = "no-pi-version"
TOO_LARGE = "too-large"
NOT_REGULAR = "not-a-regular-file"
UNPARSEABLE = "unparseable"


@dataclass(frozen=True, slots=True)
class KeptSession:
    """What pi wrote of a run, and the version of the pi that wrote it, None where its image did not say."""

    content: bytes
    pi_version: str | None


@dataclass(frozen=True, slots=True)
class NotKept:
    """A run stopped at a cap, and its session is of no use. `reason` is a word for its record."""

    reason: str


@dataclass(frozen=True, slots=True)
class Staged:
    """What a box finds as its session; empty is a fresh one. `reason` is None for a run that continues none."""

    content: bytes = b""
    reason: str | None = None

    @property
    def resumed(self) -> bool:
        return bool(self.content)


FRESH = Staged()


def problem_of(content: bytes) -> str | None:
    """None for what begins as a session of pi in the workspace does; pi itself reads the rest, in its box."""
    if not content:
        return ABSENT
    try:
        header = json.loads(content[:LONGEST_HEADER].split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return UNPARSEABLE
    if not isinstance(header, dict) or header.get("type") != "session" or header.get("cwd") != WORKSPACE_DIR:
        return UNPARSEABLE
    return None


def stage(kept: KeptSession | None, pi_version: str | None) -> Staged:
    """What a run that goes on is given, by the version of pi in its image: another one may not read it."""
    if kept is None:
        return Staged(reason=ABSENT)
    if pi_version is None or kept.pi_version is None:
        return Staged(reason=NO_VERSION)
    if pi_version != kept.pi_version:
        return Staged(reason=VERSION_CHANGED)
    return Staged(kept.content, RESUMED)
