"""Mask keys in an answer as it passes, each at its own length, so that neither framing nor time changes.

An answer is what an agent works with, so only what is surely a key is masked, and only where most of it stands in a row:
a part of one, or a word that an operator uses as one, may be the model's own. All forms of `redaction` are found, those
that the cuts of the network divide as well, but not one that is spread over several lines: over several events of a stream.
"""

import re
from collections.abc import Iterable

from pidispatch.domain.redaction import MASK, Redactor
from pidispatch.domain.secretforms import ESCAPE, ROUNDS, letters, unescaped

ENOUGH = 24  # letters and digits of a form in a row, or all where it has fewer
SHORTEST = 12
SHORTEST_WORD = 24  # of one without a digit: shorter ones are placeholders such as `no-key-required`
MOST_LINE = 64 * 1024  # bytes of a line that are held back until it ends
_LEAST_REACH, _MOST_REACH = 512, 16 * 1024

_ALL = bytes(range(256))
_LOWERED = _ALL.lower()
# What is no character of an ASCII key: white space may be any of Unicode's, of which no byte is ASCII but these.
_BETWEEN = bytes(each for each in _ALL if each > 127 or chr(each).isspace() or chr(each) == "\\")
_WHITE = (b"\\n", b"\\t", b"\\r")
# What may stand for a character of a key, or between two. A look for a single byte is quicker than a pattern.
_ESCAPED = re.compile(rb"%[0-9A-Fa-f]{2}|\\[ubf]")


def is_key(value: str) -> bool:
    """Whether a value is too long and too odd to be a word that somebody writes by chance."""
    if len(letters(value)) < SHORTEST - 2:
        return False
    return len(value) >= (SHORTEST if any(map(str.isdigit, value)) else SHORTEST_WORD)


class Keys:
    """The keys to look for, shared by all answers. Time is linear; it never raises."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value for value in values if is_key(value)}
        self._redactor = Redactor(known, piece=ENOUGH)
        size, blocks = self._redactor.blocks
        self._blocks = frozenset(block.encode() for block in blocks if block.isascii())
        self._cut = re.compile(rb".{%d}" % size, re.DOTALL)
        longest = max(map(len, known), default=0)
        # An escape of an escape makes twelve bytes of a character.
        self.reach = min(max(12 * longest, _LEAST_REACH), _MOST_REACH)
        self.is_empty = not known

    def masked(self, data: bytes) -> bytes:
        """The same with every key masked, exactly as long."""
        return self.masked_until(data, len(data))[0]

    def masked_until(self, data: bytes, end: int) -> tuple[bytes, int]:
        """What is before `end`, masked, and where that ends: before a key that goes on behind it."""
        if self.is_empty or not self._is_suspect(data):
            return data[:end], end
        text = data.decode("utf-8", "surrogateescape")
        parts, at, done = [], 0, 0
        for start, stop in self._redactor.spans(text):
            parts.append(_bytes(text[at:start]))
            done += len(parts[-1])
            hidden = len(_bytes(text[start:stop]))
            if done < end < done + hidden and done:
                return b"".join(parts), done
            parts.append(_cover(hidden))
            done, at = done + hidden, stop
        parts.append(_bytes(text[at:]))
        return b"".join(parts)[:end], end

    def fields(self, fields: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        """Header fields with what they hold masked; one that has a key in its name is left out."""
        return tuple(
            (name, self.masked(value.encode("latin-1", "replace")).decode("latin-1"))
            for name, value in fields
            if self.masked(name.encode("latin-1", "replace")) == name.encode("latin-1", "replace")
        )

    def _is_suspect(self, data: bytes) -> bool:
        """A quick look: no key is missed, and hardly anything else is taken for one."""
        if b"\\" in data:
            for white in _WHITE:
                data = data.replace(white, b"")
        if self._has_block(data):
            return True
        return (
            (b"\\" in data or b"%" in data) and _ESCAPED.search(data) is not None and self._has_escaped(data)
        )

    def _has_escaped(self, data: bytes) -> bool:
        text = data.decode("latin-1")
        for _ in range(ROUNDS):
            plainer = ESCAPE.sub(unescaped, text)
            if plainer == text:
                return False
            if self._has_block(plainer.encode("ascii", "ignore")):
                return True
            text = plainer
        return False

    def _has_block(self, data: bytes) -> bool:
        return not self._blocks.isdisjoint(self._cut.findall(data.translate(_LOWERED, _BETWEEN)))


class Mask:
    """One answer on its way: feed it the bytes as they come, and `end` gives the rest.

    With `lines` each line passes as soon as it is whole; without, the answer is of use to nobody before its end, and some
    of it is held back all the time.
    """

    def __init__(self, keys: Keys, *, lines: bool) -> None:
        self._keys, self._lines = keys, lines
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        if self._keys.is_empty:
            return chunk
        held = self._held + chunk if self._held else chunk
        cut = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1 if self._lines else 0
        most = MOST_LINE if self._lines else 2 * self._keys.reach
        if len(held) - cut > most:
            cut = len(held) - self._keys.reach
            passed, cut = self._keys.masked_until(held, cut)
        else:
            passed = self._keys.masked(held[:cut]) if cut else b""
        self._held = held[cut:]
        return passed

    def end(self) -> bytes:
        held, self._held = self._held, b""
        return self._keys.masked(held)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _cover(size: int) -> bytes:
    return MASK.encode().ljust(size, b"*")[:size]
