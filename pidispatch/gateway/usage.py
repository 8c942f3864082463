"""Read what a model call used from the JSON of chat completions and of messages."""

import math
from dataclasses import dataclass
from typing import Any

from pidispatch.gateway.loose import as_count, as_dict, as_dicts, first_count

_OPENAI_STOPS = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}
_ANTHROPIC_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


@dataclass(slots=True)
class Tally:
    """What has been seen of one answer. `text` counts bytes of generated text, `pieces` the events that had some;
    `calls` says that the model asked for a tool.

    `reported` is true once the provider's final usage was seen; before it, `tokens_out` may be a running count.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    stop: str | None = None
    failed: bool = False
    text: int = 0
    pieces: int = 0
    calls: bool = False
    reported: bool = False
    understood: bool = False


def read_openai(tally: Tally, message: dict[str, Any]) -> None:
    """One chunk of a chat completion, or a whole one (platform.openai.com/docs/api-reference/chat)."""
    tally.understood = True
    tally.failed = tally.failed or bool(message.get("error"))
    for choice in as_dicts(message.get("choices")):
        size = (
            text_size(choice.get("delta")) + text_size(choice.get("message")) + text_size(choice.get("text"))
        )
        tally.text += size
        tally.pieces += size > 0
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            tally.stop = _OPENAI_STOPS.get(reason, "error")
    usage = as_dict(message.get("usage")) or as_dict(as_dict(message.get("x_groq")).get("usage"))
    if as_count(usage.get("prompt_tokens")) is not None:
        _openai_usage(tally, usage)
    # Some servers send a running usage with every chunk; it is final once the answer has ended.
    tally.reported = tally.tokens_in is not None and tally.stop is not None


def _openai_usage(tally: Tally, usage: dict[str, Any]) -> None:
    asked = as_dict(usage.get("prompt_tokens_details"))
    made = as_dict(usage.get("completion_tokens_details"))
    prompt = as_count(usage.get("prompt_tokens")) or 0
    read = first_count(
        asked.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens")
    )
    tally.cache_read = min(read, prompt)
    tally.cache_write = min(first_count(asked.get("cache_write_tokens")), prompt - tally.cache_read)
    tally.tokens_in = prompt - tally.cache_read - tally.cache_write
    # Where reasoning is left out of completion_tokens (xAI), the total still holds it.
    total = first_count(usage.get("total_tokens"))
    tally.tokens_out = max(first_count(usage.get("completion_tokens")), total - prompt)
    tally.reasoning = first_count(made.get("reasoning_tokens"), usage.get("reasoning_tokens"))


def read_anthropic(tally: Tally, message: dict[str, Any]) -> None:
    """One event of a message stream, or a whole message (docs.anthropic.com/en/api/messages-streaming)."""
    tally.understood = True
    kind = message.get("type")
    if kind == "error":
        tally.failed = True
    elif kind == "message_start":
        _anthropic_usage(tally, as_dict(as_dict(message.get("message")).get("usage")))
    elif kind in ("content_block_start", "content_block_delta"):
        size = text_size(message.get("delta")) + text_size(message.get("content_block"))
        tally.text += size
        tally.pieces += size > 0
    elif kind == "message_delta":
        _anthropic_usage(tally, as_dict(message.get("usage")))
        _anthropic_stop(tally, as_dict(message.get("delta")).get("stop_reason"))
    elif kind == "message":
        tally.text += text_size(message.get("content"))
        _anthropic_usage(tally, as_dict(message.get("usage")))
        _anthropic_stop(tally, message.get("stop_reason"))


def _anthropic_stop(tally: Tally, reason: Any) -> None:
    if isinstance(reason, str):
        tally.stop = _ANTHROPIC_STOPS.get(reason, "error")
    tally.reported = tally.stop is not None and tally.tokens_in is not None


def _anthropic_usage(tally: Tally, usage: dict[str, Any]) -> None:
    """Counts are cumulative and may come again, each on its own; the largest is the last."""
    asked = as_count(usage.get("input_tokens"))
    if asked is not None:
        tally.tokens_in = max(tally.tokens_in or 0, asked)
    made = as_count(usage.get("output_tokens"))
    if made is not None:
        tally.tokens_out = max(tally.tokens_out or 0, made)
    split = as_dict(usage.get("cache_creation"))
    long = first_count(split.get("ephemeral_1h_input_tokens"))
    written = first_count(split.get("ephemeral_5m_input_tokens")) + long
    tally.cache_write_1h = max(tally.cache_write_1h, long)
    tally.cache_write = max(tally.cache_write, first_count(usage.get("cache_creation_input_tokens")), written)
    tally.cache_read = max(tally.cache_read, first_count(usage.get("cache_read_input_tokens")))
    details = as_dict(usage.get("output_tokens_details"))
    tally.reasoning = max(
        tally.reasoning, first_count(details.get("thinking_tokens"), details.get("reasoning_tokens"))
    )


def estimated(size: int) -> int:
    """Tokens of this many bytes, rather too many than too few."""
    return math.ceil(size / 3)


def text_size(value: Any, depth: int = 8) -> int:
    """The bytes of all strings in a value, to a bounded depth."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if depth == 0:
        return 0
    if isinstance(value, dict):
        return sum(text_size(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return sum(text_size(item, depth - 1) for item in value)
    return 0
