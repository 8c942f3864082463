"""Look into a provider's answer for its being busy, before anything of it is handed on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from pidispatch.domain.providers.busyanswer import STATUSES, TOO_MANY, busy
from pidispatch.domain.providers.pressure import Busy
from pidispatch.domain.providers.streamopening import Nothing, Opening, Output, Overload, opening
from pidispatch.gateway.calls.sse import EventData
from pidispatch.gateway.calls.upstream import ProviderAnswer, UpstreamFailed
from pidispatch.gateway.http.http1 import Fields

MOST_BODY = 64 * 1024
_OK = 200
_JSON = ("content-type", "application/json")
_OF_PRESSURE = frozenset({"retry-after", "retry-after-ms"})


@dataclass(frozen=True, slots=True)
class ProviderRefusal:
    """A provider's own words for being busy, and what they mean."""

    status: int
    fields: Fields
    body: bytes
    busy: Busy

    def answer(self) -> ProviderAnswer:
        return ProviderAnswer(self.status, self.fields, iter((self.body,)))


OURS = ProviderRefusal(
    TOO_MANY,
    (("content-type", "application/json"),),
    b'{"type": "error", "error": {"type": "rate_limit_error",'
    b' "message": "pidispatch: the provider had no room for this call for too long"}}',
    Busy(),
)


def look(
    answer: ProviderAnswer, model: str, *, is_stream: bool
) -> tuple[ProviderAnswer, ProviderRefusal | None]:
    """The answer, whole and unread as before, and what it is if it is a refusal to be waited out. Raises UpstreamFailed.

    `model` was asked for, `is_stream`: for a stream. Of one only what comes before its output is held back.
    """
    fields: dict[str, str] = {}
    for name, value in answer.fields:
        fields.setdefault(name, value)
    if answer.status == _OK:
        return _look_inside(answer, fields, model, is_stream=is_stream)
    if answer.status not in STATUSES:
        return answer, None
    body, rest = _begin(answer.chunks)
    if len(body) <= MOST_BODY:
        said = busy(answer.status, fields, body, datetime.now(UTC), model=model)
        if said is not None:
            return answer, ProviderRefusal(answer.status, answer.fields, body, said)
    return ProviderAnswer(answer.status, answer.fields, chain((body,), rest)), None


def _look_inside(
    answer: ProviderAnswer, fields: Mapping[str, str], model: str, *, is_stream: bool
) -> tuple[ProviderAnswer, ProviderRefusal | None]:
    if fields.get("content-encoding", "identity") != "identity":
        return answer, None
    kind = fields.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "text/event-stream" or (is_stream and not kind.endswith("json")):
        body, rest, said = _first_events(answer.chunks)
    elif _size(fields) <= MOST_BODY:
        body, rest = _begin(answer.chunks)
        said = opening(body) if b'"error"' in body else Output()
    else:
        return answer, None
    if isinstance(said, Overload):
        kept = tuple((name, value) for name, value in answer.fields if name in _OF_PRESSURE)
        means = busy(said.status, fields, said.body, datetime.now(UTC), model=model) or Busy()
        return answer, ProviderRefusal(said.status, (_JSON, *kept), said.body, means)
    return ProviderAnswer(answer.status, answer.fields, chain((body,), rest)), None


def _first_events(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes], Opening]:
    """What was read until it is known what the stream is, and the rest of it."""
    read, events = bytearray(), EventData(MOST_BODY)
    try:
        for chunk in chunks:
            read += chunk
            for data in events.feed(chunk):
                said = opening(data)
                if not isinstance(said, Nothing):
                    return bytes(read), chunks, said
            if len(read) > MOST_BODY:
                break
    except UpstreamFailed as failure:
        return bytes(read), _failing(failure), Output()
    return bytes(read), chunks, Output()


def _failing(failure: UpstreamFailed) -> Iterator[bytes]:
    """An answer that has begun fails where it is handed on."""
    raise failure
    yield b""


def _size(fields: Mapping[str, str]) -> int:
    told = fields.get("content-length", "")
    return int(told) if told.isascii() and told.isdigit() and len(told) <= 15 else MOST_BODY + 1


def _begin(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """All of it if it is short, else its beginning, and the rest of it."""
    read = bytearray()
    for chunk in chunks:
        read += chunk
        if len(read) > MOST_BODY:
            break
    return bytes(read), chunks
