"""Look into a provider's answer for its being busy, before anything of it is handed on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from pidispatch.domain.busyanswer import STATUSES, TOO_MANY, busy
from pidispatch.domain.pressure import Busy
from pidispatch.gateway.http1 import Fields
from pidispatch.gateway.upstream import Answer

MOST_BODY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """A provider's own words for being busy, and what they mean."""

    status: int
    fields: Fields
    body: bytes
    busy: Busy

    def answer(self) -> Answer:
        return Answer(self.status, self.fields, iter((self.body,)))


OURS = Refusal(
    TOO_MANY,
    (("content-type", "application/json"),),
    b'{"type": "error", "error": {"type": "rate_limit_error",'
    b' "message": "pidispatch: the provider had no room for this call for too long"}}',
    Busy(),
)


def look(answer: Answer) -> tuple[Answer, Refusal | None]:
    """The answer, whole and unread as before, and what it is if it is a refusal to be waited out. Raises UpstreamFailed."""
    if answer.status not in STATUSES:
        return answer, None
    body, rest = _begin(answer.chunks)
    if len(body) <= MOST_BODY:
        fields: dict[str, str] = {}
        for name, value in answer.fields:
            fields.setdefault(name, value)
        said = busy(answer.status, fields, body, datetime.now(UTC))
        if said is not None:
            return answer, Refusal(answer.status, answer.fields, body, said)
    return Answer(answer.status, answer.fields, chain((body,), rest)), None


def _begin(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """All of it if it is short, else its beginning, and the rest of it."""
    read = bytearray()
    for chunk in chunks:
        read += chunk
        if len(read) > MOST_BODY:
            break
    return bytes(read), chunks
