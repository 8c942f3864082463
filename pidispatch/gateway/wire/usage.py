"""Read what a model call used from the reports in its answer."""

from dataclasses import dataclass, field, replace
from typing import Any

# Names of members whose texts are no words of the model.
_LABELS = frozenset({"type", "role", "id"})
# Two reports of one prompt may differ by the marks around its messages.
_SAME_TOKENS, _SAME_SHARE = 64, 50


@dataclass(frozen=True, slots=True)
class Usage:
    """One report of a provider. `out` is None in a report that says nothing of the output."""

    fresh: int
    out: int | None
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0

    @property
    def asked(self) -> int:
        """All tokens in."""
        return self.fresh + self.cache_read + self.cache_write

    def joined(self, later: "Usage") -> "Usage":
        """Both reports as one: never less than either, but that the later one may split the same input finer.

        Some servers of the messages API put the whole prompt in the first report, and in the last one what of it came
        from the cache.
        """
        missing = self.asked - later.asked
        split = later if missing <= 0 else self
        if 0 < missing <= max(_SAME_TOKENS, self.asked // _SAME_SHARE) and later.cache_read > self.cache_read:
            split = replace(later, fresh=later.fresh + missing)
        made = [out for out in (self.out, later.out) if out is not None]
        return replace(split, out=max(made, default=None), reasoning=max(self.reasoning, later.reasoning))


@dataclass(slots=True)
class Tally:
    """What has been seen of one answer. `text` counts bytes of generated text, `pieces` the events that had some;
    `calls` says that the model asked for a tool, `choices` how many answers were asked for; a document holds them all.
    """

    choices: int = 1
    is_document: bool = False
    usage: Usage | None = None
    stop: str | None = None
    failed: bool = False
    text: int = 0
    pieces: int = 0
    calls: bool = False
    _finished: set[int] = field(default_factory=set)
    _told_over: bool = False
    _told_pieces: int = -1

    def write(self, size: int) -> None:
        """So many bytes of text; what was reported before them is not the end of it."""
        self.text += size
        if size > 0:
            self.pieces += 1
            self._told_over = False

    def finish(self, stop: str, choice: int = 0) -> None:
        """One of the answers has ended."""
        self.stop = stop
        self._finished.add(choice)

    def tell(self, report: Usage) -> None:
        """The provider reports; a report that takes back what an earlier one said is not the last word."""
        before, self.usage = self.usage, report if self.usage is None else self.usage.joined(report)
        if report.asked == 0 or report.out is None or report.out < ((before and before.out) or 0):
            return
        self._told_pieces = self.pieces
        self._told_over = self._told_over or self._is_over

    def final(self, *, whole: bool) -> Usage | None:
        """The provider's last word; None while there is none.

        That is a report with the end of all answers or behind it. In an answer that came `whole` also one before, unless
        text followed it.
        """
        last = self._told_over or (whole and self._told_pieces == self.pieces)
        return self.usage if self._is_over and last else None

    @property
    def empty(self) -> Usage | None:
        """What was reported of an answer that is over, where that is no token in."""
        return self.usage if self._is_over and self.usage is not None and self.usage.asked == 0 else None

    @property
    def _is_over(self) -> bool:
        return self.stop is not None and (self.is_document or len(self._finished) >= self.choices)


def split_usage(
    *, prompt: int, read: int, written: int, out: int | None, total: int | None, reasoning: int
) -> Usage:
    """A report in which the tokens of the prompt include cached ones."""
    read = min(read, prompt)
    written = min(written, prompt - read)
    # Where reasoning is left out of the output (xAI), the total still holds it.
    made = [number for number in (out, None if total is None else total - prompt) if number is not None]
    return Usage(
        fresh=prompt - read - written,
        out=None if out is None and total is None else max(0, *made),
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
    )


def text_size(value: Any, depth: int = 8) -> int:
    """The bytes of all strings in a value that a model may have written, to a bounded depth."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if depth == 0:
        return 0
    if isinstance(value, dict):
        return sum(text_size(item, depth - 1) for name, item in value.items() if name not in _LABELS)
    if isinstance(value, list):
        return sum(text_size(item, depth - 1) for item in value)
    return 0
