"""A provider that keeps each request as it came, and bills the most that its own rules allow."""

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES

IMAGE = 4_784  # https://docs.anthropic.com/en/docs/build-with-claude/vision, at most
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "thinking_budget")
UNLIMITED = 1_000_000


@dataclass(frozen=True)
class Heard:
    """`billed` are tokens, in and out."""

    method: str
    path: str
    fields: tuple[tuple[str, str], ...]
    body: bytes
    billed: int

    @property
    def asked(self) -> Any:
        return json.loads(self.body)


class Recorder:
    def __init__(self) -> None:
        self.heard: list[Heard] = []
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


def most(body: bytes) -> tuple[int, int]:
    """Tokens in and out at most: a byte of text is one, an image is an image, and thinking comes before the answer."""
    try:
        asked = json.loads(body)
    except ValueError:
        return 0, 0
    images, text = _weigh(asked)
    setting = asked.get("thinking")
    budget = setting.get("budget_tokens") if isinstance(setting, dict) else None
    said = [budget, *(asked.get(name) for name in LIMITS)]
    limits = [number for number in said if type(number) is int]
    choices = max(
        (number for number in (asked.get("n"), asked.get("best_of")) if type(number) is int), default=1
    )
    return text + IMAGE * images, max(limits, default=UNLIMITED) * choices


def _weigh(value: Any) -> tuple[int, int]:
    """Images, and the bytes of all other texts."""
    if isinstance(value, str):
        is_image = value.startswith("data:image/")
        return (1, 0) if is_image else (0, len(value.encode("utf-8", "surrogatepass")))
    if isinstance(value, dict) and str(value.get("media_type", "")).startswith("image/"):
        return 1, 0
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    weights = [_weigh(each) for each in inner]
    return sum(images for images, _ in weights), sum(text for _, text in weights)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: Recorder

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        tokens_in, tokens_out = most(body)
        fields = tuple((name.lower(), text) for name, text in self.headers.items())
        heard = Heard(self.command, self.path, fields, body, tokens_in + tokens_out)
        self.provider.heard.append(heard)
        api = {"messages": ANTHROPIC, "responses": RESPONSES}.get(
            self.path.partition("?")[0].rpartition("/")[2]
        )
        data = json.dumps(_answer(api or OPENAI, tokens_in, tokens_out)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _answer(api: str, tokens_in: int, tokens_out: int) -> dict[str, Any]:
    if api == OPENAI:
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
        return {"choices": [{"finish_reason": "stop"}], "usage": usage}
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    if api == ANTHROPIC:
        return {"type": "message", "stop_reason": "end_turn", "content": [], "usage": usage}
    return {"object": "response", "status": "completed", "output": [], "usage": usage}
