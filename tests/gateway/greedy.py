"""A provider that always makes as many tokens as it is allowed to, and keeps its own bill."""

import json
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

from pidispatch.domain.rates import Price, Tokens
from pidispatch.domain.wireapis import ANTHROPIC, RESPONSES
from tests.gateway.counting import counted
from tests.support.jsonprovider import JsonProvider

UNLIMITED = 1_000_000


class GreedyProvider(JsonProvider):
    """`micros` and `tokens` are what it would bill; `seed` chooses its tokenizer."""

    def __init__(self, price: Price, seed: int) -> None:
        super().__init__()
        self._price, self._seed = price, seed
        self._lock = threading.Lock()
        self.micros = self.tokens = 0
        self.asked: list[dict[str, Any]] = []

    def answer(self, api: str, request: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        """Of chat completions it reads `max_tokens` alone, as many servers do."""
        del request
        asked = json.loads(body)
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
