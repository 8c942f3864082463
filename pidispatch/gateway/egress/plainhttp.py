"""Pass one plain http:// request on, as a proxy is asked for it: one request a connection, nothing of the hop."""

import re
import socket
from dataclasses import dataclass

from pidispatch.domain.egress.hostname import Target, read_target
from pidispatch.gateway.http.http1 import MOST_HEAD, Departed, Fields, Head, Wire

MOST_BODY = 16 * 1024 * 1024
ANSWER_SECONDS = 300.0
_SCHEME = "http://"
# https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
_OF_THE_HOP = {
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade",
    "proxy-authorization", "proxy-authenticate", "proxy-authentication-info",
}  # fmt: skip
_OURS_TO_SAY = _OF_THE_HOP | {"host", "content-length", "transfer-encoding", "expect"}
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [\x09\x20-\x7e\x80-\xff]*)?")
_SWITCHING = 101


class NoAnswer(Exception):
    """The host answered with something else than HTTP, or not at all."""


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """The target of an absolute-form request, and the path that its host is to see."""

    target: Target
    path: str


def read_asked(head: Head) -> PlainRequest | None:
    """None when the request names no host, or more than a host."""
    authority, slash, rest = head.path.removeprefix(_SCHEME).partition("/")
    target = read_target(authority, 80)
    if target is None or "#" in rest or "#" in head.query:
        return None
    path = f"/{rest}" if slash else "/"
    return PlainRequest(target, f"{path}?{head.query}" if head.query else path)


def request_bytes(asked: PlainRequest, head: Head, body: bytes) -> bytes:
    host = str(asked.target).removesuffix(":80")
    lines = [f"{head.method} {asked.path} HTTP/1.1", f"host: {host}"]
    lines += (f"{name}: {value}" for name, value in _without(head.fields, _OURS_TO_SAY))
    if body or head.field("content-length") is not None:
        lines.append(f"content-length: {len(body)}")
    return ("\r\n".join([*lines, "connection: close"]) + "\r\n\r\n").encode("latin-1") + body


def exchange(sock: socket.socket, request: bytes, wire: Wire) -> tuple[bytes, int]:
    """Send the request, hand on the answer's head, and return what came behind it, and how many bytes came in all.

    Raises NoAnswer, Departed.
    """
    try:
        sock.settimeout(ANSWER_SECONDS)
        sock.sendall(request)
        head, rest, size = _answer(sock)
    except OSError as error:
        raise NoAnswer from error
    wire.write(head)
    return rest, size


def _answer(sock: socket.socket) -> tuple[bytes, bytes, int]:
    """The head to hand on, the bytes behind it, and the number of all. Interim answers are left out."""
    pending, size = b"", 0
    while True:
        while (end := pending.find(b"\r\n\r\n")) < 0:
            if len(pending) > MOST_HEAD:
                raise NoAnswer
            chunk = sock.recv(64 * 1024)
            if not chunk:
                raise NoAnswer
            pending, size = pending + chunk, size + len(chunk)
        first, *rest = pending[:end].split(b"\r\n")
        pending = pending[end + 4 :]
        status = _STATUS_LINE.fullmatch(first)
        if status is None or int(status[1]) == _SWITCHING:
            raise NoAnswer
        if int(status[1]) >= 200:
            return _head(first, rest), pending, size


def _head(first: bytes, lines: list[bytes]) -> bytes:
    """The head without what was for this hop; the body's framing stays, as its bytes do."""
    named = [line.partition(b":") for line in lines]
    fields = tuple(
        (name.strip().lower().decode("latin-1"), value.strip().decode("latin-1")) for name, _, value in named
    )
    kept = {name for name, _ in _without(fields, _OF_THE_HOP)}
    handed = [line for line, (name, _) in zip(lines, fields, strict=True) if name in kept]
    return b"\r\n".join([first, *handed, b"connection: close"]) + b"\r\n\r\n"


def _without(fields: Fields, names: set[str]) -> Fields:
    """Without these, and without what a Connection field names."""
    named = {
        word.strip().lower() for name, value in fields if name == "connection" for word in value.split(",")
    }
    return tuple((name, value) for name, value in fields if name not in names | named)


__all__ = ["MOST_BODY", "Departed", "NoAnswer", "PlainRequest", "exchange", "read_asked", "request_bytes"]
