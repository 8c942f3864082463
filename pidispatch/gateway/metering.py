"""Measure one model call from the bytes of its answer as they pass by."""

import json
from typing import Any

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.gateway.sse import EventData
from pidispatch.gateway.usage import Tally, estimated, read_anthropic, read_openai
from pidispatch.gateway.usage_responses import read_responses
from pidispatch.ports import CallEnd

MOST_DOCUMENT = 10 * 1024 * 1024

_READERS = {OPENAI: read_openai, ANTHROPIC: read_anthropic, RESPONSES: read_responses}


class Meter:
    """Feed it the answer of one call; `end` says what the call used. It never raises on any bytes."""

    def __init__(self, api: str, request_size: int, *, most: int = MOST_DOCUMENT) -> None:
        self._read = _READERS[api]
        self._request_size, self._most = request_size, most
        self._tally = Tally()
        self._status = 0
        self._size = 0
        self._events: EventData | None = None
        self._document: list[bytes] = []

    def begin(self, status: int, content_type: str | None, *, asked_stream: bool) -> None:
        """The status line has come. Only a JSON type speaks against the stream that was asked for."""
        self._status = status
        kind = (content_type or "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" or (asked_stream and not kind.endswith("json")):
            self._events = EventData(self._most)

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
        asked = seen.tokens_in if seen.tokens_in is not None else estimated(self._request_size)
        return CallEnd(
            status=self._status,
            stop_reason=stop,
            tokens_in=asked,
            tokens_out=(seen.tokens_out or 0) if seen.reported else self._estimated_out(),
            cache_read=seen.cache_read,
            cache_write=seen.cache_write,
            reasoning=seen.reasoning,
            measured=seen.reported,
        )

    def _unanswered(self, *, aborted: bool, sent: bool) -> CallEnd:
        # A refusal costs nothing. No status at all after the request went out: the provider may have done the work.
        unknown = self._status == 0 and sent
        return CallEnd(
            status=self._status,
            stop_reason="aborted" if aborted and self._status == 0 else "error",
            tokens_in=estimated(self._request_size) if unknown else 0,
            measured=not unknown,
        )

    def _estimated_out(self) -> int:
        seen = self._tally
        guess = estimated(seen.text) if seen.understood else estimated(self._size)
        return max(guess, seen.pieces, seen.tokens_out or 0)

    def _take(self, data: bytes) -> None:
        message = load_object(data)
        if message is not None:
            self._read(self._tally, message)


def load_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in these bytes, or None: whatever the bytes are."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None
