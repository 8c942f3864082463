"""Read from the first events of an answer whether the provider is overloaded, before it has put anything out.

The status of a stream is sent before its model is asked, so that some say only in an event what would have been a 429
or 529: https://docs.anthropic.com/en/api/errors, https://openrouter.ai/docs/api-reference/errors. What is not known for
certain is taken for output: an answer that has begun is handed on, and paid for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pidispatch.domain.providers.busyanswer import OVERLOADED, TOO_MANY, UNAVAILABLE, waiting_helps

_CODES = {TOO_MANY: TOO_MANY, UNAVAILABLE: UNAVAILABLE, OVERLOADED: OVERLOADED}
_WORDS = {
    "overloaded_error": OVERLOADED,
    "overloaded": OVERLOADED,
    "server_overloaded": OVERLOADED,
    "server_is_overloaded": OVERLOADED,
    "engine_overloaded": OVERLOADED,
    "engine_overloaded_error": OVERLOADED,
    "slow_down": OVERLOADED,
    "rate_limit_error": TOO_MANY,
    "rate_limit_exceeded": TOO_MANY,
    "rate_limited": TOO_MANY,
    "too_many_requests": TOO_MANY,
}
_BEFORE_OUTPUT = frozenset({"response.created", "response.queued", "response.in_progress"})


@dataclass(frozen=True, slots=True)
class Nothing:
    """It may still become either."""


@dataclass(frozen=True, slots=True)
class Output:
    """The answer has begun, or failed in a way that is to be handed on."""


@dataclass(frozen=True, slots=True)
class Overload:
    """What the provider would have said with `status`; `body` is its error, as JSON."""

    status: int
    body: bytes


Opening = Nothing | Output | Overload


def opening(data: bytes) -> Opening:
    """What the data of one event says. Never raises."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return Output()
    if not isinstance(said, dict):
        return Output()
    error = _error(said)
    if error is not None:
        status = None if _has_output(said) else _status(error)
        return Output() if status is None else Overload(status, _body(error))
    return Nothing() if _is_bare(said) else Output()


def _error(said: Mapping[str, Any]) -> Mapping[str, Any] | None:
    kind = said.get("type")
    response = said.get("response")
    if kind == "response.failed" and isinstance(response, dict) and isinstance(response.get("error"), dict):
        return dict(response["error"])
    error = said.get("error")
    if isinstance(error, dict) and error:
        return error
    if isinstance(error, str) and error:
        return {"message": error}
    return said if kind == "error" else None


def _status(error: Mapping[str, Any]) -> int | None:
    if not waiting_helps(error):
        return None
    for word in (error.get("code"), error.get("type"), error.get("status")):
        text = str(word).lower() if isinstance(word, str | int) and not isinstance(word, bool) else ""
        found = _CODES.get(int(text)) if len(text) == 3 and text.isdecimal() else _WORDS.get(text)
        if found is not None:
            return found
    return None


def _body(error: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": "error", "error": error}).encode()


def _has_output(said: Mapping[str, Any]) -> bool:
    choices = said.get("choices")
    if isinstance(choices, list):
        return not all(isinstance(each, dict) and _is_empty(each.get("delta")) for each in choices)
    return bool(said.get("output") or said.get("content"))


def _is_bare(said: Mapping[str, Any]) -> bool:
    kind = said.get("type")
    if kind == "ping":
        return True
    if kind == "message_start":
        message = said.get("message")
        return isinstance(message, dict) and message.get("content") == []
    if kind in _BEFORE_OUTPUT:
        response = said.get("response")
        return isinstance(response, dict) and not response.get("output")
    choices = said.get("choices")
    if kind is not None or not isinstance(choices, list) or said.get("usage"):
        return False
    return all(
        isinstance(each, dict) and each.get("finish_reason") is None and _is_empty(each.get("delta"))
        for each in choices
    )


def _is_empty(delta: object) -> bool:
    """Nothing but who speaks."""
    return delta is None or (
        isinstance(delta, dict) and not any(value for name, value in delta.items() if name != "role")
    )
