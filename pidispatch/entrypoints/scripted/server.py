"""Serve the scripts over HTTP, and remember what was asked."""

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pidispatch.entrypoints.scripted import wire, wire_responses
from pidispatch.entrypoints.scripted.scenarios import (
    SCENARIOS,
    Failure,
    Say,
    Scenario,
    ScriptedUsage,
    usage_of,
)

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """One request as it came. `usage` is what its answer reported, None for a failure."""

    path: str
    model: str
    step: int
    key: str
    headers: dict[str, str]
    body: dict[str, Any]
    status: int
    usage: ScriptedUsage | None


class ScriptedProvider:
    """Use as a context manager. `pace(n)` is called before piece n of each stream, and may block.

    `url` is the base URL of all APIs' paths (`url + "/v1/messages"`, `url + "/v1/chat/completions"`, …).
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        log: Path | None = None,
        pace: Callable[[int], None] | None = None,
    ) -> None:
        self.asked: list[ScriptedRequest] = []
        self.pace = pace
        self._log = log
        self._lock = threading.Lock()
        self._firsts: Counter[str] = Counter()
        handler = type("Handler", (_ScriptedHandler,), {"provider": self})
        self._server = _ScriptedServer((host, port), handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http://{host}:{self.port}"
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

    def choose(self, name: str, step: int) -> Say | Failure:
        """The answer of this step. Failures before step 0 count anew for the next run, so runs need no reset."""
        scenario: Scenario = SCENARIOS.get(name, SCENARIOS["happy"])
        if scenario.first is not None and step == 0:
            with self._lock:
                self._firsts[name] += 1
                count = self._firsts[name]
            if scenario.times is None or count % (scenario.times + 1):
                return scenario.first
        return scenario.steps[min(step, len(scenario.steps) - 1)]

    def remember(self, asked: ScriptedRequest) -> int:
        with self._lock:
            self.asked.append(asked)
            if self._log is not None:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(asked)) + "\n")
            return len(self.asked)


class _ScriptedServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # by default a sixth call at the same moment may be hung up on

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients end their kept connections with a reset; nothing is wrong.
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _ScriptedHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "scripted"
    # Head and body are two writes; without this each answer waits 40 ms for the peer's delayed acknowledgement.
    disable_nagle_algorithm = True
    provider: ScriptedProvider

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        body = _object(raw)
        if path not in {CHAT, MESSAGES, RESPONSES} or body is None:
            self._json(404 if body is not None else 400, Failure(404, "not_found", "not found").body())
            return
        model = str(body.get("model", "happy"))
        step = (
            wire_responses.steps_of_input(body.get("input"))
            if path == RESPONSES
            else steps_so_far(body.get("messages"))
        )
        chosen = self.provider.choose(model, step)
        usage = usage_of(step, len(chosen.parts)) if isinstance(chosen, Say) else None
        status = 200 if isinstance(chosen, Say) else chosen.status
        headers = {name.lower(): value for name, value in self.headers.items()}
        key = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        number = self.provider.remember(
            ScriptedRequest(self.path, model, step, key, headers, body, status, usage)
        )
        if isinstance(chosen, Failure) or usage is None:
            failed = chosen if isinstance(chosen, Failure) else Failure(status, "api_error", "nothing to say")
            self._json(status, failed.body(), failed.fields)
            return
        self._say(path, body, chosen, usage, f"{number}")

    def _say(self, path: str, body: dict[str, Any], message: Say, usage: ScriptedUsage, tag: str) -> None:
        model = str(body.get("model", "happy"))
        streamed = body.get("stream") is True
        if not streamed:
            whole = {
                MESSAGES: wire.anthropic_whole,
                RESPONSES: wire_responses.responses_whole,
                CHAT: wire.openai_whole,
            }[path]
            self._json(200, whole(model, message, usage, tag))
            return
        if path == MESSAGES:
            events = wire.anthropic_stream(model, message, usage, tag)
        elif path == RESPONSES:
            events = wire_responses.responses_stream(model, message, usage, tag)
        else:
            wanted = (body.get("stream_options") or {}).get("include_usage") is True
            events = wire.openai_stream(model, message, usage, tag, with_usage=wanted)
        self._stream(events, message.pause)

    def _stream(self, events: Iterable[bytes], pause: float) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if self.provider.pace is not None:
                self.provider.pace(number)
            if pause:
                time.sleep(pause)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _json(self, status: int, body: dict[str, Any], fields: Iterable[tuple[str, str]] = ()) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def steps_so_far(messages: Any) -> int:
    """Assistant messages after the last thing a person said (a tool's result is not one)."""
    count = 0
    for message in messages if isinstance(messages, list) else []:
        if message.get("role") == "assistant":
            count += 1
        elif message.get("role") == "user" and not _is_tool_result(message.get("content")):
            count = 0
    return count


def _is_tool_result(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") == "tool_result" for part in content
    )
