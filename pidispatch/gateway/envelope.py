"""Read the few top-level members of a model request that matter here, without building the rest."""

import json
import re
from dataclasses import dataclass
from typing import Any

MOST_MEMBERS = 500
MOST_TOKENS = 4_000_000
MOST_MODEL = 200

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE = re.compile(rb"[ \t\r\n]*+")
_KEY = re.compile(_STRING, re.DOTALL)
# A string that does not end is taken whole: looking again from each quote inside it would be quadratic.
_NEST = re.compile(_STRING + rb"?+|([\[{])|([\]}])", re.DOTALL)
_SCALAR = re.compile(rb"[-+.0-9A-Za-z]{1,64}+")
_MODEL = re.compile(rf"[\x21-\x7e]{{1,{MOST_MODEL}}}")
# What makes a provider work on after it has answered, or on what does not stand in the request: neither can be counted.
_ELSEWHERE = ("background", "previous_response_id", "conversation", "prompt", "thread")
_READ = ("model", "stream", "stream_options", *_ELSEWHERE)

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Envelope:
    """`model` as asked for, whether a stream is wanted, and where `stream_options` stands (None: absent)."""

    model: str
    stream: bool
    options: Span | None


class NotARequest(ValueError):
    """The body is not a JSON object with one plain `model`."""


def read_envelope(body: bytes) -> Envelope:
    """Raises NotARequest. Memory stays small for any body; its inside is left for the provider to judge."""
    spans = _members(body)
    model = _value(body, spans.get("model"), 8 * MOST_MODEL)
    if not isinstance(model, str) or _MODEL.fullmatch(model) is None:
        raise NotARequest("the request names no model")
    stream = _value(body, spans.get("stream"), 16)
    if stream not in (True, False, None):
        raise NotARequest("stream is neither true nor false")
    for name in _ELSEWHERE:
        span = spans.get(name)
        if span is not None and body[span[0] : span[1]] not in (b"null", b"false"):
            raise NotARequest(
                f"{name} is not allowed: the whole request must stand in its body, and be answered"
            )
    return Envelope(model, stream is True, spans.get("stream_options"))


def with_usage(body: bytes, envelope: Envelope) -> bytes:
    """The same request, asking for a usage chunk at the stream's end (`stream_options.include_usage`)."""
    if envelope.options is None:
        start = body.index(b"{") + 1
        return b"%b%b,%b" % (body[:start], b'"stream_options":{"include_usage":true}', body[start:])
    options = _value(body, envelope.options, 4096)
    if not isinstance(options, dict | None) or (options or {}).get("include_usage") is True:
        return body
    start, end = envelope.options
    return body[:start] + json.dumps({**(options or {}), "include_usage": True}).encode() + body[end:]


def _members(body: bytes) -> dict[str, Span]:
    """Where the value of each member stands that this module reads."""
    spans: dict[str, Span] = {}
    at = _expect(body, 0, b"{")
    for _ in range(MOST_MEMBERS):
        match = _KEY.match(body, at)
        if match is None:
            raise NotARequest("the body is not a JSON object")
        start = _expect(body, match.end(), b":")
        end = _skip_value(body, start)
        name = _name(match[0])
        if name in spans:
            raise NotARequest(f"{name} is given twice")
        if name is not None:
            spans[name] = (start, end)
        at = _space(body, end)
        if body[at : at + 1] == b"}":
            if _space(body, at + 1) != len(body):
                raise NotARequest("something follows the JSON object")
            return spans
        at = _expect(body, at, b",")
    raise NotARequest("the request has too many members")


def _name(raw: bytes) -> str | None:
    """The member's name if it is one of ours. Another case of it is refused: some servers read it all the same."""
    if len(raw) > 200:
        return None
    try:
        name = json.loads(raw)
    except ValueError as error:
        raise NotARequest("a member's name is malformed") from error
    if name in _READ:
        return str(name)
    if name.casefold() in _READ:
        raise NotARequest(f"{name.casefold()} is written in another case")
    return None


def _space(body: bytes, at: int) -> int:
    match = _SPACE.match(body, at)
    return match.end() if match else at


def _expect(body: bytes, at: int, mark: bytes) -> int:
    at = _space(body, at)
    if body[at : at + 1] != mark:
        raise NotARequest("the body is not a JSON object")
    return _space(body, at + 1)


def _skip_value(body: bytes, at: int) -> int:
    match = _KEY.match(body, at) or _SCALAR.match(body, at)
    if match is not None:
        return match.end()
    if body[at : at + 1] not in (b"{", b"["):
        raise NotARequest("a member has no value")
    depth = 0
    for count, token in enumerate(_NEST.finditer(body, at)):
        depth += (token.lastindex == 1) - (token.lastindex == 2)
        if depth == 0:
            return token.end()
        if count > MOST_TOKENS:
            break
    raise NotARequest("a value does not end, or has too many parts")


def _value(body: bytes, span: Span | None, most: int) -> Any:
    if span is None:
        return None
    if span[1] - span[0] > most:
        raise NotARequest("a member is too long")
    try:
        return json.loads(body[span[0] : span[1]])
    except (ValueError, RecursionError) as error:
        raise NotARequest("a member is malformed") from error
