"""Recognise a key that was meant to be one whose absence costs money or starts what should have waited.

Other unknown keys are dropped, so that a file of a later version still loads. These are refused: a cap, a condition
or an excluded tool that is not read leaves a file that looks as if it were.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from pidispatch.domain.files.lookalikes import skeleton
from pidispatch.domain.files.triggers.part import Part

_LENGTH_MAX = 200
_SURVIVORS_MIN = 4  # letters of ASCII that must be left of a key with foreign ones, before it can be judged
_CLOSE_MIN = 5  # shorter words have too many neighbours
_WORDS_OF_THEIR_OWN = frozenset({"mode", "modes", "modal", "modals"})


@dataclass(frozen=True, eq=False)
class Family:
    """The spellings of some keys, without case and separators, each with the key that is meant.

    `part` is where the keys belong: there their exact names are legal. `gaps` also finds a key whose foreign letters
    left holes.
    """

    part: str
    meant: Mapping[str, str]
    gaps: bool = True

    @cached_property
    def skeletons(self) -> Mapping[str, str]:
        return {skeleton(spelling): name for spelling, name in self.meant.items()}

    def meant_by(self, key: str) -> str | None:
        """The key that `key` is a spelling of, its exact name too; None when it is something else."""
        return _meant(self, key) if len(key) <= _LENGTH_MAX else None


@lru_cache(maxsize=4096)  # a file has thousands of entries and few different keys
def _meant(family: Family, key: str) -> str | None:
    plain = re.sub("[^A-Za-z0-9]", "", key).lower()
    if plain in family.meant:
        return family.meant[plain]
    if not re.fullmatch("[ -~]*", key) and family.gaps and len(plain) >= _SURVIVORS_MIN:
        for spelling, name in family.meant.items():
            if _is_within(plain, spelling):
                return name
    eye = skeleton(key)
    if eye in family.skeletons:
        return family.skeletons[eye]
    if plain in _WORDS_OF_THEIR_OWN:
        return None
    for spelling, name in family.skeletons.items():
        if len(spelling) >= _CLOSE_MIN and _is_one_slip(eye, spelling):
            return name
    return None


def _is_within(letters: str, word: str) -> bool:
    rest = iter(word)
    return all(letter in rest for letter in letters)


def _is_one_slip(one: str, other: str) -> bool:
    """Whether one letter too many, one too few, one wrong or two swapped make the difference."""
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    begin = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    left, right = one[begin:], other[begin:]
    if len(left) == len(right):
        swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
        return left[1:] == right[1:] or swapped
    return left[1:] == right if len(left) > len(right) else left == right[1:]


def _family(part: str, *, gaps: bool = True, **spellings: str) -> Family:
    meant = {spelling: name for name, text in spellings.items() for spelling in (name.lower(), *text.split())}
    return Family(part, meant, gaps=gaps)


WAIT = _family("run", gaps=False, waitFor="")
BACKEND = _family("run", backend="backends")
TOOLS = _family("run", excludeTools="excludetool excludedtools")
MODELS = _family(
    "run",
    provider="providers providerid providerids providername",
    model="modelid modelname",
    models="modelids modelnames allowedmodels allowedmodel",
    maxTurns="maxturn",
    maxCostUsd="maxcost",
)
# The keys that are not the reference's own. `while_running` loses its separator here as any spelling does.
OURS_ON = Family(
    "on",
    {
        **dict.fromkeys(("repo", "repos", "repositories", "repository"), "repo"),
        **dict.fromkeys(("tz", "timezone"), "tz"),
        "missed": "missed",
        "whilerunning": "while_running",
    },
    gaps=False,
)
OURS_RUN = _family("run", gaps=False, priority="priorities", egress="egresshosts egressallowlist")
MISPLACED = (WAIT, BACKEND, TOOLS, MODELS)

_LEGAL_ELSEWHERE = {"run": frozenset({"repository"})}


def sweep(parts: Iterable[Part], family: Family) -> None:
    """Refuse each key that is meant to be one of the family and is not read as it."""
    legal = frozenset(family.meant.values())
    for part in parts:
        for key in part.fields:
            if key in _LEGAL_ELSEWHERE.get(part.name, ()) or (part.name == family.part and key in legal):
                continue
            name = family.meant_by(key)
            if name is not None:
                part.refuse(
                    key,
                    f"is not a field; {family.part}.{name} is, and it must be spelled and placed like that",
                )
