"""Write a secret in each form in which a text might hold it, and read a text as the plainest form of itself."""

import base64
import re
from collections.abc import Iterator

# What escapes a character in URLs, JSON, source text and HTML; doubly escaped ones too. Each run of backslashes is
# read from its beginning alone, so that time stays linear.
ESCAPE = re.compile(
    r"%(?:25)*(?P<percent>[0-9A-Fa-f]{2})"
    r"|(?<!\\)\\++(?:u(?P<unicode>[0-9A-Fa-f]{4})|u\{0{0,8}(?P<braced>[0-9A-Fa-f]{1,6})\}"
    r"|x(?P<byte>[0-9A-Fa-f]{2})|(?P<octal>[0-3][0-7]{2})|[abefnrtv0])"
    r"|&#x0{0,8}(?P<html>[0-9A-Fa-f]{1,6});?|&#0{0,8}(?P<decimal>[0-9]{1,7});?"
    r"|(?<![0-9A-Za-z])0x(?P<source>[0-9A-Fa-f]{2})(?![0-9A-Fa-f])"
)
_BASES = {"octal": 8, "decimal": 10}
MOST_NESTED = 256  # bytes; a certificate's key in all forms within forms would fill much memory
ROUNDS = 3  # an escape within an escape within an escape

# Everything but letters and digits may stand between two characters of a secret that was split.
CORE = re.compile(r"[^\W_]+")
_NOT_CORE = re.compile(r"[\W_]+")


def unescaped(match: re.Match[str]) -> str:
    """The character that an escape stands for; none for an escape of white space."""
    if match.lastgroup is None:
        return ""
    number = int(match[match.lastgroup], _BASES.get(match.lastgroup, 16))
    return chr(number) if number <= 0x10FFFF else ""


def lowered(text: str) -> str:
    """In lower case, exactly as long, and each character the same wherever it stands."""
    low = text.lower().replace("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")
    return low if len(low) == len(text) else "".join(_low(character) for character in text)


def _low(character: str) -> str:
    low = character.lower()
    return low if len(low) == 1 else character


def core(text: str) -> str:
    return lowered(_NOT_CORE.sub("", text))


def forms(secret: str) -> Iterator[str]:
    """The secret plain, backwards, as hex and as base64 wherever in other data it stands, and one of these in another."""
    for plain in {secret, secret[::-1], ESCAPE.sub(unescaped, secret)}:
        data = plain.encode("utf-8", "surrogatepass")
        yield plain
        yield data.decode("latin-1")
        yield from _encoded(data)
        if len(data) > MOST_NESTED:
            continue
        whole = base64.b64encode(data)
        for inner in (
            data.hex(),
            data.hex().upper(),
            whole.decode(),
            base64.urlsafe_b64encode(data).decode(),
        ):
            yield from _encoded(inner.encode())


def _encoded(data: bytes) -> Iterator[str]:
    yield data.hex()
    for before in range(3):
        # Only the characters that no neighbour has a part in.
        text = base64.b64encode(bytes(before) + data + bytes(2)).decode()
        yield text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
