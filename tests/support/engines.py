"""A scripted Docker engine on a unix socket, for what a real one does only on a bad day."""

import json
import socketserver
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from pidispatch.runtime.engine import Engine

Answer = tuple[int, object]


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    answers: Mapping[str, Answer]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def address_string(self) -> str:
        return "a unix socket"

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        place = f"{self.command} {path.partition('/v1.41')[2] or path}"
        known = {"GET /version": (200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12"})} | dict(
            self.server.answers
        )
        status, body = known.get(place, (404, {"message": f"no such place: {place}"}))
        if isinstance(body, list):
            self._stream(status, body)
        else:
            self._whole(status, json.dumps(body).encode())

    def _whole(self, status: int, text: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, status: int, chunks: Sequence[bytes]) -> None:
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the server's names


@contextmanager
def scripted_engine(path: Path, answers: Mapping[str, Answer]) -> Iterator[Engine]:
    """An engine that answers `METHOD /path` with (status, JSON), or a list of chunks."""
    with _Server(str(path), _Handler) as server:
        server.answers = answers
        threading.Thread(target=server.serve_forever, args=(0.05,)).start()
        engine = Engine(f"unix://{path}")
        try:
            yield engine
        finally:
            engine.api.close()
            server.shutdown()
