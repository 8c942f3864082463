"""Reduce a name to what the eye makes of it, so that a key that only looks like another is found out."""

import unicodedata

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
