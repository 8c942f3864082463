"""A provider that answers each request at once, in one piece of JSON that its subclass makes."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES


class JsonProvider:
    """Use as a context manager; `url` is the base of all APIs' paths."""

    def __init__(self) -> None:
        handler = type("Handler", (_Handler,), {"provider": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, api: str, request: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        """The whole answer to a request of this wire API."""
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: JsonProvider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        last = self.path.partition("?")[0].rpartition("/")[2]
        api = {"messages": ANTHROPIC, "responses": RESPONSES}.get(last, OPENAI)
        data = json.dumps(self.provider.answer(api, self, body)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
