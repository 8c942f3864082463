"""A provider that keeps each request as it came, and bills the most that its own rules allow."""

import json
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI
from tests.support.jsonprovider import JsonProvider

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


class Recorder(JsonProvider):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Heard] = []

    def answer(self, api: str, request: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
        tokens_in, tokens_out = most(body)
        fields = tuple((name.lower(), text) for name, text in request.headers.items())
        self.heard.append(Heard(request.command, request.path, fields, body, tokens_in + tokens_out))
        return _answer(api, tokens_in, tokens_out)


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


def _answer(api: str, tokens_in: int, tokens_out: int) -> dict[str, Any]:
    if api == OPENAI:
        usage = {"prompt_tokens": tokens_in, "completion_tokens": tokens_out}
        return {"choices": [{"finish_reason": "stop"}], "usage": usage}
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out}
    if api == ANTHROPIC:
        return {"type": "message", "stop_reason": "end_turn", "content": [], "usage": usage}
    return {"object": "response", "status": "completed", "output": [], "usage": usage}
