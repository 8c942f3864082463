"""Find out what a key was meant to be that only looks like another: by case, separators, letters, or a slip."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

# By each letter: what passes for it (Greek, Cyrillic, Armenian, digits, signs). `l` also stands for i.
_LOOK_ALIKES = {
    "a": "\u0430\u03b1@4",
    "b": "\u0432\u044c\u0185",
    "c": "\u03f2\u0441",
    "d": "\u0501\u0257",
    "e": "\u0435\u03b53",
    "f": "\u0584\u03dd",
    "g": "\u0261\u0581",
    "h": "\u04bb",
    "k": "\u03ba\u043a",
    "l": "\u0456\u03b9\u0131i1|!\u04cf",
    "m": "\u043c\u03bc",
    "n": "\u0578\u043f\u03b7",
    "o": "\u043e\u03bf\u05850",
    "p": "\u0440\u03c1",
    "r": "\u0433\u027c",
    "s": "\u04555$",
    "t": "\u0442\u03c47",
    "u": "\u03c5\u057d",
    "v": "\u03bd\u0475",
    "w": "\u051d\u03c9",
    "x": "\u0445\u03c7\u00d7",
    "y": "\u0443\u03b3",
}
_LATIN = str.maketrans({char: letter for letter, chars in _LOOK_ALIKES.items() for char in chars})


def skeleton(text: str) -> str:
    """What is left of a key for the eye: no case, no accents, no separators, each look-alike as what it looks like."""
    flat = unicodedata.normalize("NFKD", text).casefold().translate(_LATIN)
    return "".join(char for char in flat if char.isalnum())


_LENGTH_MAX = 200
_SURVIVORS_MIN = 4  # letters of ASCII that must be left of a key with foreign ones, before it can be judged
_CLOSE_MIN = 5  # shorter words have too many neighbours
_WORDS_OF_THEIR_OWN = frozenset({"mode", "modes", "modal", "modals"})


@dataclass(frozen=True, eq=False)
class KeyFamily:
    """The spellings of some keys, without case and separators, each with the key that is meant.

    `part` is where the keys of an entry of triggers belong: there their exact names are legal. `gaps` also finds a key whose foreign letters
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
def _meant(family: KeyFamily, key: str) -> str | None:
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


def family_of(part: str, *, gaps: bool = True, **spellings: str) -> KeyFamily:
    """Each key with further spellings of it, separated by spaces."""
    meant = {spelling: name for name, text in spellings.items() for spelling in (name.lower(), *text.split())}
    return KeyFamily(part, meant, gaps=gaps)
