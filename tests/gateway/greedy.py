"""A provider that always makes as many tokens as it is allowed to, and keeps its own bill."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from pidispatch.domain.rates import Price, Tokens
from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES
from tests.gateway.counting import counted

UNLIMITED = 1_000_000


class GreedyProvider:
    """`micros` and `tokens` are what it would bill; `seed` chooses its tokenizer."""

    def __init__(self, price: Price, seed: int) -> None:
        self._price, self._seed = price, seed
        self._lock = threading.Lock()
        self.micros = self.tokens = 0
        self.asked: list[dict[str, Any]] = []
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

    def answer(self, api: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The whole answer; of chat completions it reads `max_tokens` alone, as many servers do."""
        tokens_in = counted(api, asked, self._seed)
        made = (asked.get("max_output_tokens" if api == RESPONSES else "max_tokens") or UNLIMITED) * (
            asked.get("n") or 1
        )
        written = tokens_in if api == ANTHROPIC and "cache_control" in json.dumps(asked) else 0
        used = Tokens(fresh=tokens_in - written, out=made, cache_write=written)
        with self._lock:
            self.asked.append(asked)
            self.micros += self._price.cost(used)
            self.tokens += tokens_in + made
        if api == ANTHROPIC:
            usage = {
                "input_tokens": used.fresh,
                "output_tokens": made,
                "cache_creation_input_tokens": written,
            }
            return {"type": "message", "stop_reason": "max_tokens", "content": [], "usage": usage}
        if api == RESPONSES:
            usage = {"input_tokens": tokens_in, "output_tokens": made, "total_tokens": tokens_in + made}
            why = {"reason": "max_output_tokens"}
            return {
                "object": "response",
                "status": "incomplete",
                "incomplete_details": why,
                "output": [],
                "usage": usage,
            }
        usage = {"prompt_tokens": tokens_in, "completion_tokens": made}
        return {"choices": [{"finish_reason": "length"}], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: GreedyProvider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        api = {"messages": ANTHROPIC, "responses": RESPONSES}.get(self.path.rpartition("/")[2], OPENAI)
        data = json.dumps(self.provider.answer(api, asked)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
