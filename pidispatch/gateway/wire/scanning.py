"""Find where the values of a JSON text stand, without building them."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

MOST_MEMBERS = 500
MOST_TOKENS = 4_000_000

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE = re.compile(rb"[ \t\r\n]*+")
_KEY = re.compile(_STRING, re.DOTALL)
# Most objects hold no other: one match is much quicker than a look at each of their parts.
_FLAT = re.compile(rb'[{\[](?:[^"{}\[\]]++|' + _STRING + rb")*+[}\]]", re.DOTALL)
# A string that does not end is taken whole: looking again from each quote inside it would be quadratic.
_NEST = re.compile(_STRING + rb"?+|([\[{])|([\]}])", re.DOTALL)
_COLON = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+")
_AFTER = re.compile(rb"[ \t\r\n]*+([,\]}])[ \t\r\n]*+")
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]{1,64}+")

Span = tuple[int, int]


class NotARequest(ValueError):
    """The body is not a JSON object that can be read in one way only."""


def members(body: bytes, at: int = 0) -> tuple[list[tuple[bytes, Span]], int]:
    """The raw key and the value's place of each member of the object at `at`, and where it ends. Raises NotARequest."""
    found: list[tuple[bytes, Span]] = []
    at = expect(body, at, b"{")
    if body[at : at + 1] == b"}":
        return found, at + 1
    for _ in range(MOST_MEMBERS):
        named = _KEY.match(body, at)
        colon = _COLON.match(body, named.end()) if named is not None else None
        if named is None or colon is None:
            raise NotARequest("the body is not a JSON object")
        start = colon.end()
        end = skip_value(body, start)
        found.append((named[0], (start, end)))
        after = _AFTER.match(body, end)
        if after is None or after[1] == b"]":
            raise NotARequest("the body is not a JSON object")
        if after[1] == b"}":
            return found, after.end()
        at = after.end()
    raise NotARequest("the request has too many members")


def elements(body: bytes, span: Span) -> Iterator[Span]:
    """Where each element of the array at this place stands. Raises NotARequest."""
    at = expect(body, span[0], b"[")
    if body[at : at + 1] == b"]":
        return
    while True:
        end = skip_value(body, at)
        yield at, end
        after = _AFTER.match(body, end)
        if after is None or after[1] == b"}":
            raise NotARequest("a list does not go on")
        if after[1] == b"]":
            return
        at = after.end()


def value(body: bytes, span: Span | None, most: int) -> Any:
    """Build one value of at most so many bytes; None for no place. Raises NotARequest."""
    if span is None:
        return None
    if span[1] - span[0] > most:
        raise NotARequest("a member is too long")
    try:
        return json.loads(body[span[0] : span[1]])
    except (ValueError, RecursionError) as error:
        raise NotARequest("a member is malformed") from error


def key(raw: bytes) -> str:
    """A member's name. Raises NotARequest."""
    try:
        return str(json.loads(raw))
    except ValueError as error:
        raise NotARequest("a member's name is malformed") from error


def skip_space(body: bytes, at: int) -> int:
    match = _SPACE.match(body, at)
    return match.end() if match else at


def expect(body: bytes, at: int, mark: bytes) -> int:
    at = skip_space(body, at)
    if body[at : at + 1] != mark:
        raise NotARequest("the body is not a JSON object")
    return skip_space(body, at + 1)


def skip_value(body: bytes, at: int) -> int:
    match = _KEY.match(body, at) or _SCALAR.match(body, at) or _FLAT.match(body, at)
    if match is not None:
        return match.end()
    if body[at : at + 1] not in (b"{", b"["):
        raise NotARequest("a member has no value")
    depth = 0
    for count, token in enumerate(_NEST.finditer(body, at)):
        depth += (token.lastindex == 1) - (token.lastindex == 2)
        if depth == 0:
            return token.end()
        if count > MOST_TOKENS:
            break
    raise NotARequest("a value does not end, or has too many parts")


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_count(value: Any) -> int | None:
    """A token count, or None for what cannot be one (over 2^31 is no count of tokens in one call).

    Some servers write counts as floats; a part of a token is a whole one.
    """
    if isinstance(value, float) and math.isfinite(value):
        value = math.ceil(value)
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if sound else None


def first_count(*values: Any) -> int:
    return next((count for count in map(as_count, values) if count is not None), 0)
