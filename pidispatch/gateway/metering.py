"""Measure one model call from the bytes of its answer as they pass by."""

import json
import time
from collections.abc import Callable
from typing import Any

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.gateway.sse import EventData
from pidispatch.gateway.usage import Tally, estimated, read_anthropic, read_openai
from pidispatch.gateway.usage_responses import read_responses
from pidispatch.ports import CallEnd

MOST_DOCUMENT = 10 * 1024 * 1024
# Tokens a second, as a model on the fastest machines makes them.
FASTEST = 1_000

_READERS = {OPENAI: read_openai, ANTHROPIC: read_anthropic, RESPONSES: read_responses}


class Meter:
    """Feed it the answer of one call; `end` says what the call used. It never raises on any bytes."""

    def __init__(
        self,
        api: str,
        request_size: int,
        *,
        most: int = MOST_DOCUMENT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = _READERS[api]
        self._request_size, self._most = request_size, most
        self._tally = Tally()
        self._status = 0
        self._size = 0
        self._most_in: int | None = None
        self._most_out: int | None = None
        self._clock = clock
        self._sent_at = clock()
        self._heard_at: float | None = None
        self._events: EventData | None = None
        self._document: list[bytes] = []

    def bound(self, *, tokens_in: int, tokens_out: int) -> None:
        """The call uses at most this much: what is estimated stays below."""
        self._most_in, self._most_out = tokens_in, tokens_out

    def sending(self) -> None:
        """The request goes out now, perhaps once more."""
        self._sent_at, self._heard_at = self._clock(), None

    def begin(self, status: int, content_type: str | None, *, asked_stream: bool) -> None:
        """The status line has come. Only a JSON type speaks against the stream that was asked for."""
        self._status = status
        kind = (content_type or "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" or (asked_stream and not kind.endswith("json")):
            self._events = EventData(self._most)

    @property
    def is_stream(self) -> bool:
        """Whether the answer is read event by event."""
        return self._events is not None

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._events is None:
            if self._size <= self._most:
                self._document.append(chunk)
            return
        for data in self._events.feed(chunk):
            self._take(data)

    def end(self, *, aborted: bool = False, sent: bool = True) -> CallEnd:
        """`aborted`: we or the client cut it off. `sent`: the request may have reached the provider."""
        if not 200 <= self._status < 300:
            return self._unanswered(aborted=aborted, sent=sent)
        if self._events is None and self._size <= self._most:
            self._take(b"".join(self._document))
        seen = self._tally
        stop = "error" if seen.failed else seen.stop or ("aborted" if aborted else "error")
        asked = seen.tokens_in if seen.tokens_in is not None else self._estimated_in()
        return CallEnd(
            status=self._status,
            stop_reason=stop,
            tokens_in=asked,
            tokens_out=(seen.tokens_out or 0) if seen.reported else self._estimated_out(aborted=aborted),
            cache_read=seen.cache_read,
            cache_write=seen.cache_write,
            cache_write_1h=seen.cache_write_1h,
            reasoning=seen.reasoning,
            measured=seen.reported,
        )

    def _unanswered(self, *, aborted: bool, sent: bool) -> CallEnd:
        # A refusal costs nothing. No status at all after the request went out: the provider may have done the work.
        unknown = self._status == 0 and sent
        return CallEnd(
            status=self._status,
            stop_reason="aborted" if aborted and self._status == 0 else "error",
            tokens_in=self._estimated_in() if unknown else 0,
            tokens_out=self._unseen() if unknown and aborted else 0,
            measured=not unknown,
        )

    def _estimated_in(self) -> int:
        guess = estimated(self._request_size)
        return guess if self._most_in is None else min(guess, self._most_in)

    def _estimated_out(self, *, aborted: bool) -> int:
        seen = self._tally
        guess = estimated(seen.text) if seen.understood else estimated(self._size)
        made = max(guess, seen.pieces) + (self._unseen() if aborted else 0)
        made = made if self._most_out is None else min(made, self._most_out)
        return max(made, seen.tokens_out or 0)

    def _unseen(self) -> int:
        """Tokens made at most before the first text came, or while none did: an answer that is sent whole, hidden thoughts.

        An agent that hangs up before it is told the usage would else have them for nothing.
        """
        if self._most_out is None:
            return 0
        until = self._clock() if self._heard_at is None else self._heard_at
        return min(self._most_out, int((until - self._sent_at) * FASTEST))

    def _take(self, data: bytes) -> None:
        message = load_object(data)
        if message is not None:
            self._read(self._tally, message)
            if self._heard_at is None and self._tally.pieces and self._events is not None:
                self._heard_at = self._clock()


def load_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in these bytes, or None: whatever the bytes are."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None
