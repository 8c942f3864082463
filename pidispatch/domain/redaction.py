"""Mask known secrets in whatever is kept of a run, in every form in which it is likely to hold them."""

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pidispatch.domain.secretforms import CORE, ESCAPE, ROUNDS, core, forms, letters, lowered, unescaped

MASK = "[redacted]"
SHORTEST = 8  # characters; what is shorter would be found where it is not meant
LONGEST = 8192
PIECE = 12  # so many letters and digits of a form in a row are enough to be masked
_LEAST = 7  # letters and digits of a form
MOST_TEXT = 16 * 1024 * 1024
MOST_DEPTH = 32

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Stream:
    """A text read in another way; character i of it stands at `starts[i]` to `ends[i]` of the original."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


class Redactor:
    """Knows the values of secrets, and shows them to nobody. Time is linear in the text; it never raises.

    A text is looked at without its white space, as it is and with its escapes undone; a secret is found by any `piece`
    letters and digits in a row of it. What holds none comes back unchanged.
    """

    def __init__(self, values: Iterable[str] = (), *, piece: int = PIECE) -> None:
        known = {value for value in values if SHORTEST <= len(value) <= LONGEST}
        self._pieces: set[str] = set()
        for form in {core(form) for value in known for form in forms(value)}:
            self._pieces |= set(_pieces(form, piece))
        self._sizes = sorted({len(each) for each in self._pieces})
        # Any piece in a text covers one whole block of it.
        self._block = (self._sizes[0] + 1) // 2 if self._sizes else 1
        self._blocks = {
            each[at : at + self._block] for each in self._pieces for at in range(len(each) - self._block + 1)
        }
        # With few letters and digits a secret is known by all of its characters alone.
        bare = sorted(value for value in known if len(letters(core(value))) < _LEAST)
        self._bare = re.compile("|".join(map(re.escape, bare))) if bare else None

    @property
    def blocks(self) -> tuple[int, frozenset[str]]:
        """Their size, and those of which a text with a secret has at least one, `core` and cut into such blocks."""
        return self._block, frozenset(self._blocks)

    def text(self, text: str) -> str:
        if len(text) > MOST_TEXT:
            return MASK
        spans = self.spans(text)
        return text if not spans else "".join(_masked(text, spans))

    def data(self, data: bytes) -> bytes:
        if len(data) > MOST_TEXT:
            return MASK.encode()
        text = data.decode("utf-8", "surrogateescape")
        masked = self.text(text)
        return data if masked == text else masked.encode("utf-8", "surrogateescape")

    def json(self, value: Any) -> Any:
        """The same with every string masked, names too. What is nested too deep is masked whole."""
        return self._json(value, MOST_DEPTH)

    def _json(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict | list) and depth == 0:
            return MASK
        if isinstance(value, dict):
            return {self._json(key, depth): self._json(item, depth - 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._json(item, depth - 1) for item in value]
        return value

    def spans(self, text: str) -> list[Span]:
        """Where secrets stand in the text."""
        found = [match.span() for match in self._bare.finditer(text)] if self._bare else []
        if self._pieces and self.is_suspect(text):
            for stream in _streams(text):
                found.extend(self._found(stream))
        return _united(found)

    def is_suspect(self, text: str) -> bool:
        """A quick look, that builds no stream: false when there is none but a bare one."""
        for _ in range(ROUNDS + 1):
            if any(True for _ in self._hits(core(text))):
                return True
            plainer = ESCAPE.sub(unescaped, text)
            if plainer == text:
                return False
            text = plainer
        return False

    def _hits(self, text: str) -> Iterator[int]:
        size, blocks = self._block, self._blocks
        return (at for at in range(0, len(text), size) if text[at : at + size] in blocks)

    def _found(self, stream: _Stream) -> Iterator[Span]:
        text = stream.text
        for hit in self._hits(text):
            for size in self._sizes:
                for at in range(max(hit - size + 1, 0), min(hit, len(text) - size) + 1):
                    if text[at : at + size] in self._pieces:
                        yield stream.starts[at], stream.ends[at + size - 1]


def _pieces(form: str, size: int) -> Iterator[str]:
    """Every part of it that has so many letters and digits, or all of them, and begins and ends with one."""
    at = letters(form)
    size = min(size, len(at))
    if size >= _LEAST:
        yield from (form[at[first] : at[first + size - 1] + 1] for first in range(len(at) - size + 1))


def _streams(text: str) -> Iterator[_Stream]:
    """The text without its white space, then what its escapes stand for."""
    stream = _Stream(text, range(len(text)), range(1, len(text) + 1))
    for _ in range(ROUNDS + 1):
        yield _core_of(stream)
        plainer = _unescaped(stream)
        if plainer is None:
            return
        stream = plainer


def _core_of(stream: _Stream) -> _Stream:
    pieces, starts, ends = [], array("Q"), array("Q")
    for match in CORE.finditer(stream.text):
        pieces.append(match[0])
        starts.extend(stream.starts[match.start() : match.end()])
        ends.extend(stream.ends[match.start() : match.end()])
    return _Stream(lowered("".join(pieces)), starts, ends)


def _unescaped(stream: _Stream) -> _Stream | None:
    """None when it has no escape."""
    pieces, starts, ends, at = [], array("Q"), array("Q"), 0
    for match in ESCAPE.finditer(stream.text):
        pieces.append(stream.text[at : match.start()])
        starts.extend(stream.starts[at : match.start()])
        ends.extend(stream.ends[at : match.start()])
        at = match.end()
        character = unescaped(match)
        if character:
            pieces.append(character)
            starts.append(stream.starts[match.start()])
            ends.append(stream.ends[at - 1])
    if at == 0:
        return None
    pieces.append(stream.text[at:])
    starts.extend(stream.starts[at:])
    ends.extend(stream.ends[at:])
    return _Stream("".join(pieces), starts, ends)


def _united(spans: Iterable[Span]) -> list[Span]:
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((start, end))
    return united


def _masked(text: str, spans: Sequence[Span]) -> Iterator[str]:
    at = 0
    for start, end in spans:
        yield text[at:start]
        yield MASK
        at = end
    yield text[at:]
