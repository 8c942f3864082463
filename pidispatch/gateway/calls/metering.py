"""Measure one model call from the bytes of its answer as they pass by."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pidispatch.domain.providers.calls import CallEnd
from pidispatch.domain.providers.rates import Doubt
from pidispatch.gateway.calls.sse import EventData
from pidispatch.gateway.wire.apis import BY_NAME
from pidispatch.gateway.wire.usage import Tally, Usage

MOST_DOCUMENT = 10 * 1024 * 1024
# The longest token of the vocabularies in use is a run of 128 spaces, so fewer tokens than this are a false count.
LONGEST_TOKEN = 128
# A provider, or a proxy before it, says that the time was up: the model may have worked all the while. 520 and 524 are
# https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors/
TIMED_OUT = frozenset({504, 520, 524})


@dataclass(frozen=True, slots=True)
class Most:
    """What a call uses at most, and what an answer that is cut off may prove to be less.

    `tokens_in` and `tokens_out` are of all `choices` together. `text_bytes` of the request are text at least; the model
    reads no more than `window`. `rate`: tokens a second that an answer is made at, at most, by the operator's word for
    providers that stop when they are hung up on. `tells_input`: the answer begins with the input's exact count.
    """

    tokens_in: int
    tokens_out: int
    choices: int = 1
    text_bytes: int = 1
    window: int = 2**31
    rate: int | None = None
    tells_input: bool = False


class Meter:
    """Feed it the answer of one call; `end` says what the call used. It never raises on any bytes.

    Only the provider's last word is a measurement, and only where it can be true. Without one the call used `most`.
    """

    def __init__(
        self,
        api: str,
        most: Most,
        *,
        most_document: int = MOST_DOCUMENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = BY_NAME[api].read
        self.most, self._most_document = most, most_document
        self._tally = Tally(most.choices)
        self._status = 0
        self._size = 0
        self._whole = False
        self._clock = clock
        self._sent_at = clock()
        self._events: EventData | None = None
        self._document: list[bytes] = []

    def sending(self) -> None:
        """The request goes out now, perhaps once more."""
        self._sent_at = self._clock()

    def begin(self, status: int, content_type: str | None, *, asked_stream: bool) -> None:
        """The status line has come. Only a JSON type speaks against the stream that was asked for."""
        self._status = status
        kind = (content_type or "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" or (asked_stream and not kind.endswith("json")):
            self._events = EventData(self._most_document)
        self._tally.is_document = self._events is None

    @property
    def is_stream(self) -> bool:
        """Whether the answer is read event by event."""
        return self._events is not None

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._events is None:
            if self._size <= self._most_document:
                self._document.append(chunk)
            return
        for data in self._events.feed(chunk):
            self._take(data)

    def finish(self) -> None:
        """The answer has come to its end in order."""
        self._whole = True
        for data in self._events.rest() if self._events is not None else ():
            self._take(data)

    def end(self, *, aborted: bool = False, sent: bool = True) -> CallEnd:
        """`aborted`: we or the client cut it off. `sent`: the request may have reached the provider."""
        if not self._may_be_billed(sent=sent):
            return CallEnd(self._status, "aborted" if aborted and self._status == 0 else "error")
        if self._events is None and self._size <= self._most_document:
            self._take(b"".join(self._document))
        stop = "error" if self._tally.failed else self._tally.stop or ("aborted" if aborted else "error")
        usage = self._tally.final(whole=self._whole and not aborted)
        doubt = self._doubt(usage or self._tally.empty)
        if usage is None or doubt is not None:
            # A provider that broke off by itself, or that a proxy gave up on, may go on, and bill.
            stops = (aborted or self._whole) and self._status not in TIMED_OUT
            return self._at_most(stop, doubt, rate=self.most.rate if stops and doubt is None else None)
        return CallEnd(
            status=self._status,
            stop_reason=stop,
            tokens_in=usage.fresh,
            tokens_out=usage.out or 0,
            cache_read=usage.cache_read,
            cache_write=usage.cache_write,
            cache_write_1h=usage.cache_write_1h,
            reasoning=usage.reasoning,
        )

    def _may_be_billed(self, *, sent: bool) -> bool:
        """A refusal costs nothing. After no status, or one that nobody knows, the work may have been done."""
        if self._status == 0:
            return sent
        return not 300 <= self._status < 600 or self._status in TIMED_OUT

    def _doubt(self, usage: Usage | None) -> Doubt | None:
        """Why this cannot be what the call used."""
        if usage is None:
            return None
        seen, most = self._tally, self.most
        made = usage.out or 0
        if usage.asked == 0 or usage.asked * LONGEST_TOKEN < most.text_bytes:
            return Doubt.INPUT_TOO_SMALL
        if made * LONGEST_TOKEN < seen.text or (made == 0 and seen.calls):
            return Doubt.OUTPUT_TOO_SMALL
        if usage.asked > max(most.window, most.tokens_in) or made > max(most.window, most.tokens_out):
            return Doubt.ABOVE_THE_WINDOW
        return None

    def _at_most(self, stop: str, doubt: Doubt | None, *, rate: int | None) -> CallEnd:
        """What it used at most: what it held, or what was seen to be less."""
        most, told = self.most, self._told_input() if doubt is None else None
        made = most.tokens_out
        if rate is not None:
            since = max(0.0, self._clock() - self._sent_at)
            made = min(made, math.ceil(since * rate) * most.choices)
        seen = self._tally.usage if doubt is None else None
        return CallEnd(
            status=self._status,
            stop_reason=stop,
            tokens_in=most.tokens_in if told is None else told.fresh,
            tokens_out=max(made, (seen and seen.out) or 0),
            cache_read=0 if told is None else told.cache_read,
            cache_write=0 if told is None else told.cache_write,
            cache_write_1h=0 if told is None else told.cache_write_1h,
            measured=False,
            input_told=told is not None,
            doubt=doubt,
        )

    def _told_input(self) -> Usage | None:
        """The input as the beginning of the answer told it, where that is exact and can be true."""
        told = self._tally.usage
        if told is None or not self.most.tells_input:
            return None
        is_sound = self.most.text_bytes <= told.asked * LONGEST_TOKEN and 0 < told.asked <= self.most.window
        return told if is_sound else None

    def _take(self, data: bytes) -> None:
        message = load_object(data)
        if message is not None:
            self._read(self._tally, message)


def load_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in these bytes, or None: whatever the bytes are.

    Where a usage stands twice in one object nobody knows which is meant, so that is none.
    """
    hook = _once if data.count(b'"usage"') > 1 else None
    try:
        value = json.loads(data, object_pairs_hook=hook)
    except (ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a member is given twice")
    return found
