"""Read JSON strictly, keeping the line of every value and the digits of every number."""

import json
import re
from dataclasses import dataclass, field

from pidispatch.errors import ConfigurationRefused

SIZE_LIMIT = 1024 * 1024  # bytes of one file
DEPTH_LIMIT = 32
SAFE_MAX = 2**53 - 1  # above it, a reader that keeps numbers as doubles no longer counts

_TOKEN = re.compile(
    r"""[ \t\r\n]*+(
        "(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"
      | -?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+(?![0-9A-Za-z.+_-])
      | (?:true|false|null)(?![0-9A-Za-z_])
      | [{}\[\],:]
    )""",
    re.VERBOSE,
)
_BLANK = re.compile(r"[ \t\r\n]*+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it was written."""

    text: str

    def whole(self) -> int | None:
        """The integer that a reader of doubles sees (`5`, `5.0` and `1e1` are), if it can still count there."""
        value = float(self.text)
        return int(value) if value.is_integer() and abs(value) <= SAFE_MAX else None


@dataclass(frozen=True, slots=True)
class Node:
    """One value, the line it begins on (from 1) and its place in the text; nodes are equal when their values are."""

    value: "dict[str, Node] | list[Node] | Number | str | bool | None"
    line: int = field(default=0, compare=False)
    begin: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


class _Fault(Exception):
    """The text is refused at `offset`."""

    def __init__(self, offset: int, problem: str) -> None:
        self.offset, self.problem = offset, problem
        super().__init__(problem)


def read_json(content: bytes, file: str) -> Node:
    """The value in `content`. Raises ConfigurationRefused, naming `file` and the line.

    Refused: more than 1 MiB, deeper than 32, not UTF-8, a byte order mark, a key twice in one object, NaN and
    Infinity, a number beyond the doubles, half a surrogate pair.
    """
    if len(content) > SIZE_LIMIT:
        raise ConfigurationRefused([f"{file}: is larger than {SIZE_LIMIT} bytes"])
    if content.startswith(b"\xef\xbb\xbf"):
        raise ConfigurationRefused([f"{file}:1: begins with a byte order mark; save it as UTF-8 without one"])
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationRefused([f"{file}:{line}: is not UTF-8"]) from None
    try:
        return _Reader(text).document()
    except _Fault as fault:
        line = text.count("\n", 0, fault.offset) + 1
        raise ConfigurationRefused([f"{file}:{line}: is not valid JSON: {fault.problem}"]) from None


def write_json(node: Node) -> bytes:
    """The file for a value: two spaces of indent, keys in their order, numbers as they were written."""
    return (_written(node, "\n") + "\n").encode()


def _written(node: Node, newline: str) -> str:
    inner = newline + "  "
    match node.value:
        case dict() as entries if entries:
            lines = [f"{_quoted(key)}: {_written(value, inner)}" for key, value in entries.items()]
            return "{" + inner + ("," + inner).join(lines) + newline + "}"
        case list() as items if items:
            return "[" + inner + ("," + inner).join(_written(item, inner) for item in items) + newline + "]"
        case dict():
            return "{}"
        case list():
            return "[]"
        case Number(text):
            return text
        case str(text):
            return _quoted(text)
        case word:
            return json.dumps(word)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


class _Reader:
    """Reads one text from the left; `_line` is that of `_counted`, so lines are counted once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0

    def document(self) -> Node:
        node = self._value(0)
        rest = _BLANK.match(self._text, self._at)
        if rest is not None and rest.end() != len(self._text):
            raise _Fault(rest.end(), "there is more after its end")
        return node

    def _value(self, depth: int) -> Node:
        begin, piece = self._next("a value")
        line = self._line_of(begin)
        if piece in "{[":
            if depth >= DEPTH_LIMIT:
                raise _Fault(begin, f"it is nested deeper than {DEPTH_LIMIT}")
            inner = self._object(depth) if piece == "{" else self._array(depth)
            return Node(inner, line, begin, self._at)
        if piece in "}],:":
            raise _Fault(begin, f"{piece!r} stands where a value must")
        return Node(self._simple(begin, piece), line, begin, self._at)

    def _simple(self, begin: int, piece: str) -> Number | str | bool | None:
        if piece[0] == '"':
            return self._string(begin, piece)
        return _WORDS[piece] if piece in _WORDS else _number(begin, piece)

    def _object(self, depth: int) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        begin, piece = self._next("a key or '}'")
        while piece != "}":
            if piece[0] != '"':
                raise _Fault(begin, "a key in double quotes must stand here")
            key = self._string(begin, piece)
            if key in entries:
                raise _Fault(
                    begin, f"the key {shown(key)} is there twice (first on line {entries[key].line})"
                )
            self._expect(":", f"':' after the key {shown(key)}")
            entries[key] = self._value(depth + 1)
            if self._comma_or("}"):
                break
            begin, piece = self._next("a key")
            if piece == "}":
                raise _Fault(begin, "a comma stands before '}'")
        return entries

    def _array(self, depth: int) -> list[Node]:
        items: list[Node] = []
        before = self._at
        _, piece = self._next("a value or ']'")
        if piece == "]":
            return items
        self._at = before
        while True:
            items.append(self._value(depth + 1))
            if self._comma_or("]"):
                return items

    def _comma_or(self, closing: str) -> bool:
        begin, piece = self._next(f"',' or {closing!r}")
        if piece not in {",", closing}:
            raise _Fault(begin, f"',' or {closing!r} must stand here")
        return piece == closing

    def _expect(self, wanted: str, what: str) -> None:
        begin, piece = self._next(what)
        if piece != wanted:
            raise _Fault(begin, f"{what} is missing")

    def _next(self, wanted: str) -> tuple[int, str]:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            blank = _BLANK.match(self._text, self._at)
            at = blank.end() if blank is not None else self._at
            raise _Fault(
                at, f"it ends where {wanted} must stand" if at == len(self._text) else _unknown(wanted)
            )
        self._at = found.end()
        return found.start(1), found.group(1)

    def _string(self, begin: int, piece: str) -> str:
        text: str = json.loads(piece)
        if _SURROGATE.search(text):
            raise _Fault(begin, "a text holds half a surrogate pair")
        return text

    def _line_of(self, offset: int) -> int:
        self._line += self._text.count("\n", self._counted, offset)
        self._counted = offset
        return self._line


def _unknown(wanted: str) -> str:
    return f"what stands here is not {wanted} (no comments, no NaN, no Infinity, texts in double quotes)"


def _number(begin: int, piece: str) -> Number:
    if not abs(float(piece)) < float("inf"):
        raise _Fault(begin, "a number is too large")
    return Number(piece)


def shown(text: str) -> str:
    """A name from a file on one line of a message: quoted, escaped and not too long."""
    quoted = json.dumps(text, ensure_ascii=not text.isprintable())
    return quoted if len(quoted) <= 100 else f'{quoted[:96]}…"'
