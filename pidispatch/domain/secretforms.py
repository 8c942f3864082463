"""Write a secret in each form in which a text is likely to hold it, and read a text as the plainest form of itself."""

import base64
import re
from collections.abc import Iterator

# What escapes a character in URLs and in JSON; doubly escaped ones too. Each run of backslashes is read from its
# beginning alone, so that time stays linear.
ESCAPE = re.compile(
    r"%(?:25)*(?P<percent>[0-9A-Fa-f]{2})|(?<!\\)\\++(?:u(?P<unicode>[0-9A-Fa-f]{4})|[bfnrt])"
)
ROUNDS = 3  # an escape within an escape within an escape

# White space may stand between any two characters of a secret, and so may the backslashes that JSON puts before one.
CORE = re.compile(r"[^\s\\]+")
_NOT_CORE = re.compile(r"[\s\\]+")


def unescaped(match: re.Match[str]) -> str:
    """The character that an escape stands for; none for an escape of white space."""
    return "" if match.lastgroup is None else chr(int(match[match.lastgroup], 16))


def lowered(text: str) -> str:
    """In lower case, exactly as long, and each character the same wherever it stands."""
    low = text.lower().replace("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")
    return low if len(low) == len(text) else "".join(_low(character) for character in text)


def _low(character: str) -> str:
    low = character.lower()
    return low if len(low) == 1 else character


def core(text: str) -> str:
    return lowered(_NOT_CORE.sub("", text))


def letters(text: str) -> list[int]:
    """Where its letters and digits stand: how much of a secret a text holds is counted in them."""
    return [at for at, character in enumerate(text) if character.isalnum()]


def forms(secret: str) -> Iterator[str]:
    """The secret plain, as hex, and as base64 of either alphabet wherever in other data it stands."""
    for plain in {secret, ESCAPE.sub(unescaped, secret)}:
        data = plain.encode("utf-8", "surrogatepass")
        yield plain
        yield data.decode("latin-1")
        yield data.hex()
        for before in range(3):
            # Only the characters that no neighbour has a part in.
            padded = bytes(before) + data + bytes(2)
            part = slice(-(-before * 8 // 6), (before + len(data)) * 8 // 6)
            yield base64.b64encode(padded).decode()[part]
            yield base64.urlsafe_b64encode(padded).decode()[part]
