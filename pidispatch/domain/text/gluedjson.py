"""Find the JSON value that runs to the end of a line which other output may have begun."""

import re
from collections.abc import Callable
from dataclasses import dataclass

# Possessive quantifiers (`++`, `*+`): a token that does not fit is given up at once, never retried shorter.
_TOKEN = re.compile(
    r"""[ \t\r\n]*+(
        "(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"
      | -?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+
      | true | false | null
      | [{}\[\],:]
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"[ \t\r\n]*+")

# What may come next, as the kinds of token allowed there; "0" stands for numbers and literals.
_VALUE, _KEY, _FIRST_KEY, _COLON, _FIRST_ITEM = '"0{[', '"', '"}', ":", '"0{[]'
_IN_OBJECT, _IN_ARRAY = ",}", ",]"


@dataclass(frozen=True, slots=True)
class Scan:
    """How far one JSON value could be read.

    `complete`: the value ended at `end`. Otherwise `end` is where the first token stands that JSON does not
    allow there, or the length of the text when it ran out. `inner` is the start of the container that the
    last token closed, `depth` the deepest nesting seen.
    """

    complete: bool
    end: int
    inner: int | None
    depth: int


def scan(text: str, start: int) -> Scan:
    """Read one JSON value from `start`, without recursion and without building it."""
    opened: list[int] = []
    expected, position, inner, depth = _VALUE, start, None, 0
    while token := _TOKEN.match(text, position):
        begin = token.start(1)
        kind = text[begin] if text[begin] in '"{}[],:' else "0"
        if kind not in expected:
            return Scan(complete=False, end=begin, inner=None, depth=depth)
        position, inner = token.end(), None
        if kind in "{[":
            opened.append(begin)
            depth = max(depth, len(opened))
            expected = _FIRST_KEY if kind == "{" else _FIRST_ITEM
        elif kind == ":":
            expected = _VALUE
        elif kind == ",":
            expected = _KEY if text[opened[-1]] == "{" else _VALUE
        elif expected in (_KEY, _FIRST_KEY) and kind == '"':
            expected = _COLON
        else:
            inner = opened.pop() if kind in "}]" else None
            if not opened:
                return Scan(complete=True, end=position, inner=inner, depth=depth)
            expected = _IN_OBJECT if text[opened[-1]] == "{" else _IN_ARRAY
    blank = _BLANK.match(text, position)
    end = blank.end() if blank else position
    return Scan(complete=False, end=end, inner=inner, depth=depth)


def value_start(
    line: str, anchor: str, *, max_depth: int, scan: Callable[[str, int], Scan] = scan
) -> int | None:
    """Where the value starts that ends with the line: at 0, else at the leftmost `anchor` that fits.

    `anchor` opens an object and its first key and string (`{"event":"`); `line` has no blank at its ends.
    The answer is the one of trying each anchor in turn, in linear time, because what was read once is not
    read again:

    - an anchor inside a value that was read to its end, or up to a token that is wrong, is a nested object.
      It is followed by what closes the outer one, or meets the same wrong token: it cannot end the line.
    - only when the line ran out may a nested object end it, and only the one which the last token closed.
    - a string may end in the anchor's first two characters (`"...{"`); hence the two characters of overlap.
    """
    start = 0
    while start != -1:
        found = scan(line, start)
        if found.end == len(line):
            if not found.complete:
                return _inner_start(line, anchor, found, max_depth)
            return start if found.depth <= max_depth else None
        start = line.find(anchor, max(start + 1, found.end - 2))
    return None


def _inner_start(line: str, anchor: str, outer: Scan, max_depth: int) -> int | None:
    if outer.inner is None or not line.startswith(anchor, outer.inner):
        return None
    return outer.inner if scan(line, outer.inner).depth <= max_depth else None
