"""Read the top-level members of a model request that matter here, without building the rest."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pidispatch.gateway.wire.api import ELSEWHERE, WireApi
from pidispatch.gateway.wire.apis import BY_NAME
from pidispatch.gateway.wire.scanning import NotARequest, Span, key, members, skip_space, value

__all__ = [
    "Edit",
    "Envelope",
    "NotARequest",
    "edited",
    "limit_edits",
    "read_envelope",
    "usage_edits",
]

MOST_MODEL = 200
MOST_NAME = 200

_MODEL = re.compile(rf"[\x21-\x7e]{{1,{MOST_MODEL}}}")

Edit = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Envelope:
    """`model` as asked for, whether a stream is wanted, and where the value of each member stands.

    `others` are the members that the API is not known to have; the value of each may be anything but null.
    """

    model: str
    stream: bool
    spans: Mapping[str, Span]
    others: Sequence[tuple[str, Span]] = ()

    @property
    def strange(self) -> str | None:
        """The name of the first member that is not known."""
        return self.others[0][0] if self.others else None


def read_envelope(body: bytes, api: str) -> Envelope:
    """Raises NotARequest. Memory stays small for any body; its inside is left for the provider to judge."""
    spans, others = _members(body, BY_NAME[api])
    model = value(body, spans.get("model"), 8 * MOST_MODEL)
    if not isinstance(model, str) or _MODEL.fullmatch(model) is None:
        raise NotARequest("the request names no model")
    stream = value(body, spans.get("stream"), 16)
    # 1 equals true, and some servers take it for that.
    if stream is not None and not isinstance(stream, bool):
        raise NotARequest("stream is neither true nor false")
    for name in ELSEWHERE:
        span = spans.get(name)
        if span is not None and body[span[0] : span[1]] not in (b"null", b"false"):
            raise NotARequest(
                f"{name} is not allowed: the whole request must stand in its body, and be answered"
            )
    return Envelope(model, stream is True, spans, others)


def usage_edits(body: bytes, envelope: Envelope) -> list[Edit]:
    """Ask for a usage chunk at the stream's end (`stream_options.include_usage`)."""
    span = envelope.spans.get("stream_options")
    if span is None:
        return [_insertion(body, b'"stream_options":{"include_usage":true}')]
    options = value(body, span, 4096)
    if not isinstance(options, dict | None) or (options or {}).get("include_usage") is True:
        return []
    return [(*span, json.dumps({**(options or {}), "include_usage": True}).encode())]


def limit_edits(body: bytes, envelope: Envelope, names: Iterable[str], limit: int) -> list[Edit]:
    """Give each of these members this number."""
    digits = b"%d" % limit
    return [
        (*envelope.spans[name], digits)
        if name in envelope.spans
        else _insertion(body, b'"%b":%b' % (name.encode(), digits))
        for name in names
    ]


def edited(body: bytes, edits: Iterable[Edit]) -> bytes:
    """With these places replaced, and every other byte as it was."""
    parts, at = [], 0
    for start, end, new in sorted(edits):
        parts += [body[at:start], new]
        at = end
    return b"".join([*parts, body[at:]])


def _insertion(body: bytes, member: bytes) -> Edit:
    start = body.index(b"{") + 1
    return start, start, member + b","


def _members(body: bytes, api: WireApi) -> tuple[dict[str, Span], list[tuple[str, Span]]]:
    """Where each known member stands, and those that are not known."""
    found, end = members(body)
    if skip_space(body, end) != len(body):
        raise NotARequest("something follows the JSON object")
    if not found:
        raise NotARequest("the request names no model")
    known = api.known
    spans: dict[str, Span] = {}
    others: list[tuple[str, Span]] = []
    for raw, span in found:
        name = key(raw) if len(raw) <= MOST_NAME else "a very long name"
        if name in spans:
            raise NotARequest(f"{name} is given twice")
        if name in known:
            spans[name] = span
        elif name.casefold() in known:
            # Some servers read it all the same.
            raise NotARequest(f"{name.casefold()} is written in another case")
        elif body[span[0] : span[1]] != b"null":
            others.append((name, span))
    return spans, others
