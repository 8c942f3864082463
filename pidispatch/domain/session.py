"""Say of a session, which an agent could write to, whether it is kept and whether a later run goes on with it."""

import json
from dataclasses import dataclass
from typing import Any

from pidispatch.domain import words
from pidispatch.domain.sandbox import WORKSPACE_DIR

PI_VERSION_LABEL = "dev.pi-dispatch.pi-version"

# Words of `runs.session_reason`; those that the reference has are its.


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
    """None for a session of pi in the workspace: pi refuses one with a line that is no JSON, and ends.

    What hides secrets may have hidden such a line's end as well.
    """
    header, *entries = lines = content.split(b"\n")
    if not any(lines):
        return words.ABSENT
    head = _object(header)
    if head is None or head.get("type") != "session" or head.get("cwd") != WORKSPACE_DIR:
        return words.UNPARSEABLE
    return None if all(_object(entry) is not None for entry in entries if entry) else words.UNPARSEABLE


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def stage(kept: KeptSession | None, pi_version: str | None) -> Staged:
    """What a run that goes on is given, by the version of pi in its image: another one may not read it."""
    if kept is None:
        return Staged(reason=words.ABSENT)
    if pi_version is None or kept.pi_version is None:
        return Staged(reason=words.NO_PI_VERSION)
    if pi_version != kept.pi_version:
        return Staged(reason=words.PI_VERSION_CHANGED)
    return Staged(kept.content, words.RESUMED)
