"""Speak HTTP/1.1 over one accepted socket, with a bound on every size and every wait."""

import contextlib
import json
import re
import select
import socket
import time
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

MOST_HEAD = 64 * 1024
MOST_FIELDS = 200
MEBIBYTE = 1024 * 1024
MOST_BODY = 32 * MEBIBYTE  # no provider takes more in one request
MOST_CHUNKS = 16_384  # a body of tiny ones would be work without end
IDLE_SECONDS = 75.0
HEAD_SECONDS = 30.0
BODY_SECONDS = 120.0
WRITE_SECONDS = 300.0
LINGER_SECONDS = 3.0

_REQUEST_LINE = re.compile(rb"([A-Z]{1,16}) ((?:/|http://)[\x21-\x7e]{0,8191}) HTTP/1\.1")
# Python's own client, and so pip, still asks for tunnels in HTTP/1.0.
_CONNECT_LINE = re.compile(rb"(CONNECT) ([0-9A-Za-z_.:\[\]-]{1,300}) HTTP/1\.[01]")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}):[ \t]*([\x09\x20-\x7e\x80-\xff]*?)[ \t]*")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?")

Fields = tuple[tuple[str, str], ...]


class Departed(Exception):
    """The peer closed, reset, or stopped reading or writing for too long."""


class HttpRefused(Exception):
    """The request cannot be served; the connection is answered with `status` and closed."""

    def __init__(self, status: int, problem: str) -> None:
        self.status, self.problem = status, problem
        super().__init__(problem)


@dataclass(frozen=True, slots=True)
class Head:
    """The request line and fields; names in lower case, latin-1 text. `length` is None for a chunked body.

    `path` is the whole target where that is no path: `host:port` of a CONNECT, or `http://host/path` asked of a proxy.
    So neither can be taken for a path of ours.
    """

    method: str
    path: str
    query: str
    fields: Fields
    length: int | None
    keep_alive: bool

    def field(self, name: str) -> str | None:
        return next((value for key, value in self.fields if key == name), None)


def parse_head(raw: bytes) -> Head:
    """Read everything before the empty line. Raises Refused."""
    first, *rest = raw.split(b"\r\n")
    line = (_CONNECT_LINE if first.startswith(b"CONNECT ") else _REQUEST_LINE).fullmatch(first)
    if line is None:
        raise HttpRefused(400, "the request line is not an HTTP/1.1 one with a path")
    if len(rest) > MOST_FIELDS:
        raise HttpRefused(431, "too many header fields")
    fields = tuple(_field(entry) for entry in rest)
    path, _, query = line[2].decode("ascii").partition("?")
    connection = ",".join(value for name, value in fields if name == "connection").lower()
    closes = "close" in (word.strip() for word in connection.split(","))
    length = _length(fields)
    if line[1] == b"CONNECT" and length != 0:
        raise HttpRefused(400, "a CONNECT has no body")
    return Head(line[1].decode("ascii"), path, query, fields, length, not closes)


def _field(raw: bytes) -> tuple[str, str]:
    match = _FIELD.fullmatch(raw)
    if match is None:
        raise HttpRefused(400, "a header field is malformed")
    return match[1].decode("ascii").lower(), match[2].decode("latin-1")


def _length(fields: Fields) -> int | None:
    codings = [value.lower() for name, value in fields if name == "transfer-encoding"]
    lengths = {value for name, value in fields if name == "content-length"}
    if codings:
        if codings != ["chunked"] or lengths:
            raise HttpRefused(400, "the body's framing is not one this gateway reads")
        return None
    if not lengths:
        return 0
    text = lengths.pop()
    if lengths or not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise HttpRefused(400, "content-length is not one number")
    return int(text)


class Wire:
    """One client's connection. Reads have deadlines; writes block, so a slow reader slows its provider."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.keep_alive = True
        self._pending = bytearray()

    def read_head(self) -> Head:
        """Wait for the next request. Raises Departed (also on an idle connection's end) and Refused."""
        deadline = time.monotonic() + (HEAD_SECONDS if self._pending else IDLE_SECONDS)
        started = bool(self._pending)
        while (end := self._pending.find(b"\r\n\r\n")) < 0:
            if len(self._pending) > MOST_HEAD:
                raise HttpRefused(431, "the header section is too long")
            self._fill(deadline)
            if not started:
                started, deadline = True, time.monotonic() + HEAD_SECONDS
        if end > MOST_HEAD:
            raise HttpRefused(431, "the header section is too long")
        raw = bytes(self._pending[:end])
        del self._pending[: end + 4]
        head = parse_head(raw)
        self.keep_alive = head.keep_alive
        return head

    def read_body(self, head: Head, most: int = MOST_BODY) -> bytes:
        """The whole body. Raises Departed and Refused (413 over `most` bytes)."""
        if head.length is not None and head.length > most:
            raise too_large(most)
        if (head.field("expect") or "").lower() == "100-continue":
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        deadline = time.monotonic() + BODY_SECONDS
        if head.length is None:
            return self._read_chunks(most, deadline)
        return self._take(head.length, deadline)

    def take_rest(self) -> bytes:
        """What came behind the request: where a tunnel begins, its first bytes."""
        return self._take(len(self._pending), 0)

    def _read_chunks(self, most: int, deadline: float) -> bytes:
        body, chunks = bytearray(), 0
        while size := self._chunk_size(deadline):
            chunks += 1
            if len(body) + size > most:
                raise too_large(most)
            if chunks > MOST_CHUNKS:
                raise HttpRefused(413, f"the body comes in more than {MOST_CHUNKS} chunks")
            body += self._take(size, deadline)
            if self._take(2, deadline) != b"\r\n":
                raise HttpRefused(400, "a chunk does not end where it said")
        trailers = 0
        while line := self._line(deadline):
            trailers += len(line) + 2
            if trailers > MOST_HEAD:
                raise HttpRefused(431, "the trailer section is too long")
        return bytes(body)

    def _chunk_size(self, deadline: float) -> int:
        match = _SIZE_LINE.fullmatch(self._line(deadline))
        if match is None:
            raise HttpRefused(400, "a chunk has no size")
        return int(match[1], 16)

    def _line(self, deadline: float) -> bytes:
        while (end := self._pending.find(b"\r\n")) < 0:
            if len(self._pending) > 4096:
                raise HttpRefused(400, "a line of the body's framing is too long")
            self._fill(deadline)
        line = bytes(self._pending[:end])
        del self._pending[: end + 2]
        return line

    def _take(self, size: int, deadline: float) -> bytes:
        while len(self._pending) < size:
            self._fill(deadline)
        taken = bytes(memoryview(self._pending)[:size])
        del self._pending[:size]
        return taken

    def _fill(self, deadline: float) -> None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise Departed
        try:
            self.sock.settimeout(remaining)
            chunk = self.sock.recv(256 * 1024)
        except OSError as error:
            raise Departed from error
        if not chunk:
            raise Departed
        self._pending += chunk

    def _send(self, data: bytes) -> None:
        try:
            self.sock.settimeout(WRITE_SECONDS)
            self.sock.sendall(data)
        except OSError as error:
            raise Departed from error

    def start(self, status: int, fields: Fields) -> None:
        """Send the status and fields; the caller has chosen the framing among them."""
        lines = [f"HTTP/1.1 {status} {_phrase(status)}", *(f"{name}: {value}" for name, value in fields)]
        if not self.keep_alive:
            lines.append("connection: close")
        self._send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))

    def write(self, data: bytes) -> None:
        if data:
            self._send(data)

    def write_chunk(self, data: bytes) -> None:
        """One chunk of a chunked body; nothing for empty data, which would end it."""
        if data:
            self._send(b"%x\r\n%b\r\n" % (len(data), data))

    def end_chunks(self) -> None:
        self._send(b"0\r\n\r\n")

    def answer(self, status: int, body: Any = None) -> None:
        """A whole answer: JSON, or no body at all for None."""
        data = b"" if body is None else json.dumps(body).encode()
        fields = [] if status == 204 else [("content-length", str(len(data)))]
        if data:
            fields.append(("content-type", "application/json"))
        self.start(status, tuple(fields))
        if data:
            self._send(data)

    def left(self) -> bool:
        """Whether the peer has closed its side, as far as the kernel knows."""
        hung_up = select.poll()
        hung_up.register(self.sock, select.POLLRDHUP | select.POLLHUP)
        return bool(hung_up.poll(0))

    def linger(self) -> None:
        """Say that we are done, and read on for a moment: a peer still sending its refused body sees the answer."""
        deadline = time.monotonic() + LINGER_SECONDS
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)
            while (remaining := deadline - time.monotonic()) > 0:
                self.sock.settimeout(remaining)
                if not self.sock.recv(256 * 1024):
                    return

    def hang_up(self) -> None:
        """End both directions at once; a thread blocked on this connection returns. Callable from any thread."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


def too_large(most: int) -> HttpRefused:
    """The way out is the asker's: to send less of the conversation, or smaller images."""
    size = f"{most // MEBIBYTE} MiB" if most >= MEBIBYTE else f"{most} bytes"
    return HttpRefused(413, f"the request's body is too large: at most {size} are taken")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def whole_answer(status: int, body: Any) -> bytes:
    """The bytes of an answer after which the connection ends."""
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} {_phrase(status)}\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
    return head.encode() + b"connection: close\r\n\r\n" + data


def problem(kind: str, message: str) -> dict[str, Any]:
    """An error body in the shape both wire APIs' clients read."""
    return {"error": {"message": message, "type": kind}}
