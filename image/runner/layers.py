"""Say which texts and skills pi is given beside its own, those that go before others first."""

# ruff: noqa: PTH116
# pathlib costs milliseconds to import.

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

PERSONA_BYTES = 1024 * 1024


def system_prompts(floor: str, workspace: str, *, chains: bool) -> tuple[str, ...]:
    """The image's rules, how to ask for further runs where that can lead to one, the repository's own words.

    Raises OSError for an image without its texts: pi would take the missing file's name for a text.
    """
    texts = [f"{floor}/HARD_RULES.md"]
    if chains:
        texts.append(f"{floor}/OUTBOX_PROTOCOL.md")
    for path in texts:
        os.stat(path)
    persona = f"{workspace}/.pi/APPEND_SYSTEM.md"
    facts = _facts(persona)
    if facts is not None and stat.S_ISREG(facts.st_mode) and facts.st_size <= PERSONA_BYTES:
        texts.append(persona)
    return tuple(texts)


def skill_folders(job: str, workspace: str) -> tuple[str, ...]:
    """Of two skills of one name pi takes the first: the repository's own goes before one that the run was given."""
    places = (f"{workspace}/.pi/skills", f"{job}/skills")
    found = ((place, _facts(place)) for place in places)
    return tuple(place for place, facts in found if facts is not None and stat.S_ISDIR(facts.st_mode))


def has_skill(folders: Sequence[str], name: str) -> bool:
    """Whether one of these holds a skill of this name; one that cannot be looked at is none."""
    return any(
        facts is not None and stat.S_ISREG(facts.st_mode)
        for facts in (_facts(f"{folder}/{name}/SKILL.md") for folder in folders)
    )


def _facts(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
