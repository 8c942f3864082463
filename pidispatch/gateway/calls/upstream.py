"""Send one request to a provider, stream its answer, and let another thread cut it."""

import contextlib
import functools
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import httpcore2
import httpx2

from pidispatch.gateway.providers import READ_SECONDS, USUAL, Patience

WRITE_SECONDS = 300.0
_PIECE = 256 * 1024
_BEFORE_SENDING = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)

Fields = tuple[tuple[str, str], ...]


class UpstreamFailed(Exception):
    """The provider did not answer, or broke off. `sent`: the request may have reached it."""

    def __init__(self, problem: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(problem)


class Line:
    """One call's way to its provider. `cut` from any thread ends it now, in whatever it waits for."""

    # One for all lines: a connection passes from line to line through the pool, and a late cut must not hit the next.
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._stream: _Stream | None = None
        self._wake: Callable[[], None] | None = None
        self.is_cut = False
        self.patience: float | None = READ_SECONDS  # with the next byte

    def cut(self) -> None:
        with self._lock:
            self.is_cut = True
            if self._stream is not None and self._stream.holder is self:
                self._stream.shut()
            if self._wake is not None:
                self._wake()

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` (quick) when the line is cut; at once when it has been."""
        with self._lock:
            self._wake = wake
            if self.is_cut:
                wake()
        try:
            yield
        finally:
            with self._lock:
                self._wake = None

    def hold(self, stream: "_Stream") -> None:
        """The call now uses this connection; a line that was cut before shuts it at once."""
        with self._lock:
            self._stream, stream.holder = stream, self
            if self.is_cut:
                stream.shut()

    def let_go(self) -> None:
        """The call is over: its connection is about to be another's, and a cut that comes late must not meet that one."""
        with self._lock:
            self._stream = None


class _Lines(threading.local):
    line: Line | None = None


class _Stream(httpcore2.NetworkStream):
    """A connection of the pool that tells the calling thread's line which socket it uses."""

    def __init__(self, inner: httpcore2.NetworkStream, lines: _Lines) -> None:
        self._inner, self._lines = inner, lines
        self.holder: Line | None = None

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._hold()
        line = self._lines.line
        return self._inner.read(max_bytes, timeout if line is None else line.patience)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._hold()
        # What is written at once is copied after each part of it that was sent.
        for at in range(0, len(buffer), _PIECE):
            self._inner.write(buffer[at : at + _PIECE], timeout)

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, *args: Any, **kwargs: Any) -> httpcore2.NetworkStream:
        self._hold()
        return _Stream(self._inner.start_tls(*args, **kwargs), self._lines)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def _hold(self) -> None:
        if self._lines.line is not None:
            self._lines.line.hold(self)

    def shut(self) -> None:
        sock = self._inner.get_extra_info("socket")
        with contextlib.suppress(OSError):
            # Past the TLS layer, whose own shutdown is not meant for a second thread.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _Backend(httpcore2.SyncBackend):
    def __init__(self, lines: _Lines) -> None:
        self._lines = lines

    def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.NetworkStream:
        return _Stream(super().connect_tcp(*args, **kwargs), self._lines)


class _Transport(httpx2.HTTPTransport):
    """httpx2's own, on a pool whose sockets can be reached. No cookies, no redirects, no environment."""

    def __init__(self, backend: httpcore2.NetworkBackend, trust: ssl.SSLContext) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=trust,
            max_connections=None,
            max_keepalive_connections=64,
            keepalive_expiry=45.0,
            http1=True,
            http2=False,
            network_backend=backend,
        )


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """The status and fields of an answer, and its body as the bytes arrive. `chunks` raises UpstreamFailed."""

    status: int
    fields: Fields
    chunks: Iterator[bytes]


class Upstream:
    """Warm connections to every provider, usable from any number of threads. `trust`: whose certificates count."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self._lines = _Lines()
        trust = trust or httpx2.create_ssl_context(trust_env=False)
        self._transport = _Transport(_Backend(self._lines), trust)

    @contextlib.contextmanager
    def post(
        self, url: str, fields: Fields, body: bytes, line: Line, patience: Patience = USUAL
    ) -> Iterator[ProviderAnswer]:
        """POST and yield the answer once its head is there. Raises UpstreamFailed."""
        self._lines.line, line.patience = line, patience.first
        waits = {"connect": patience.connect, "write": WRITE_SECONDS, "pool": patience.connect}
        try:
            with _translated():
                request = httpx2.Request(
                    "POST",
                    _address(url),
                    headers=_raw(fields),
                    content=body,
                    extensions={"timeout": waits},
                )
                response = self._transport.handle_request(request)
            try:
                chunks = _chunks(response, line, patience)
                yield ProviderAnswer(response.status_code, _text(response.headers.raw), chunks)
            finally:
                line.let_go()
                with contextlib.suppress(httpx2.HTTPError, OSError):
                    response.close()
        finally:
            self._lines.line = None

    def close(self) -> None:
        self._transport.close()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
        raise UpstreamFailed(type(error).__name__, sent=not isinstance(error, _BEFORE_SENDING)) from error


@functools.lru_cache(256)
def _address(url: str) -> httpx2.URL:
    """Reading one takes longer than all else of a request; there are few, and what a box adds is let go again."""
    return httpx2.URL(url)


def _chunks(response: httpx2.Response, line: Line, patience: Patience) -> Iterator[bytes]:
    # Not `iter_raw`, which gives the connection back at the end of the body, while the line still holds it.
    with _translated():
        for chunk in cast("httpx2.SyncByteStream", response.stream):
            line.patience = patience.next
            yield chunk


def _raw(fields: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in fields]


def _text(raw: Iterable[tuple[bytes, bytes]]) -> Fields:
    return cast(
        "Fields", tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw)
    )
