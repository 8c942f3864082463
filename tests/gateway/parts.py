"""Small builders: a client on a unix socket, bodies of both APIs, an upstream that a test drives byte by byte."""

import contextlib
import http.client
import json
import socket
import threading
from pathlib import Path
from typing import Any

CONTAINER = "0123456789ab" + "c" * 52
KEY = "sk-secret-of-the-host-1234"


class UnixClient(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float = 20.0) -> None:
        super().__init__("box", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """One whole request on this (kept) connection; the answer's JSON, or its bytes."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self.request(method, path, data, headers or {})
        response = self.getresponse()
        answer = response.read()
        try:
            return response.status, json.loads(answer)
        except ValueError:
            return response.status, answer


def chat(model: str = "happy", *, stream: bool = True, **more: Any) -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": "go"}], **more}


def responses(
    model: str = "happy", *, stream: bool = True, messages: Any = None, **more: Any
) -> dict[str, Any]:
    """The same as `chat` in the Responses API."""
    said = messages or [{"role": "user", "content": "go"}]
    return {"model": model, "stream": stream, "input": said, **more}


def raw_client(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(20)
    sock.connect(str(path))
    return sock


def read_until(sock: socket.socket, mark: bytes) -> bytes:
    data = b""
    while mark not in data:
        piece = sock.recv(65536)
        assert piece, f"the connection ended after {data!r}"
        data += piece
    return data


class ManualUpstream:
    """A TCP server for one request; the test says what it sends, and when, and sees it being hung up on."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.received = b""
        self._accepted = threading.Event()
        self._sock: socket.socket | None = None
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        try:
            self._sock, _ = self._listener.accept()
        except OSError:
            return
        self._sock.settimeout(20)
        self._accepted.set()

    def sock(self) -> socket.socket:
        assert self._accepted.wait(20)
        assert self._sock is not None
        return self._sock

    def read_request(self) -> bytes:
        sock = self.sock()
        self.received = read_until(sock, b"\r\n\r\n")
        head, _, body = self.received.partition(b"\r\n\r\n")
        size = int(
            next(line for line in head.lower().split(b"\r\n") if b"content-length" in line).split(b":")[1]
        )
        while len(body) < size:
            body += sock.recv(65536)
        return body

    def send(self, data: bytes) -> None:
        self.sock().sendall(data)

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def was_hung_up(self) -> bool:
        """Wait for the other side to end the connection."""
        try:
            return self.sock().recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        if self._sock is not None:
            self._sock.close()
