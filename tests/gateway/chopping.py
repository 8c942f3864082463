"""A provider that answers every request with given bytes, in given packets, and hangs up."""

import contextlib
import socket
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from tests.gateway.parts import read_until


def chunked(parts: Iterable[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts if part) + b"0\r\n\r\n"


def framed(fields: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + fields + b"transfer-encoding: chunked\r\n\r\n" + body


class Chopper:
    """Serves one connection after the other; `pieces` are the packets of the next answer."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock, contextlib.suppress(OSError):
                self._answer(sock)

    def _answer(self, sock: socket.socket) -> None:
        sock.settimeout(20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head, _, body = read_until(sock, b"\r\n\r\n").partition(b"\r\n\r\n")
        [size] = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if b"content-length" in line]
        while len(body) < int(size):
            body += sock.recv(65536)
        for piece in self.pieces:
            sock.sendall(piece)
        # A close with bytes unread would be a reset, which overtakes what was sent.
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
