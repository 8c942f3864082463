"""Write one scripted message in chat completions and in messages, streamed or whole."""

import json
from collections.abc import Iterator
from typing import Any

from pidispatch.entrypoints.scripted.scenarios import Say, ScriptedUsage, Tool

PIECE = 40


def pieces(text: str) -> list[str]:
    return [text[at : at + PIECE] for at in range(0, len(text), PIECE)] or [""]


def _openai_usage(usage: ScriptedUsage) -> dict[str, Any]:
    asked = usage.tokens_in + usage.cache_read
    return {
        "prompt_tokens": asked,
        "completion_tokens": usage.tokens_out,
        "total_tokens": asked + usage.tokens_out,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read},
    }


def _openai_stop(message: Say) -> str:
    if message.cut:
        return "length"
    return "tool_calls" if any(isinstance(part, Tool) for part in message.parts) else "stop"


def openai_stream(
    model: str, message: Say, usage: ScriptedUsage, tag: str, *, with_usage: bool
) -> Iterator[bytes]:
    """Server-sent events of a chat completion; the usage chunk only where it was asked for."""

    def event(choices: list[dict[str, Any]], **more: Any) -> bytes:
        chunk = {"id": f"chatcmpl-{tag}", "object": "chat.completion.chunk", "created": 0, "model": model}
        return b"data: " + json.dumps({**chunk, "choices": choices, **more}).encode() + b"\n\n"

    def delta(value: dict[str, Any], stop: str | None = None) -> bytes:
        return event([{"index": 0, "delta": value, "finish_reason": stop}])

    yield delta({"role": "assistant", "content": ""})
    for number, part in enumerate(message.parts):
        if isinstance(part, str):
            yield from (delta({"content": piece}) for piece in pieces(part))
            continue
        function = {"name": part.name, "arguments": ""}
        head = {"index": number, "id": f"call_{tag}_{number}", "type": "function", "function": function}
        yield delta({"tool_calls": [head]})
        for piece in pieces(json.dumps(part.arguments)):
            yield delta({"tool_calls": [{"index": number, "function": {"arguments": piece}}]})
    yield delta({}, _openai_stop(message))
    if with_usage:
        yield event([], usage=_openai_usage(usage))
    yield b"data: [DONE]\n\n"


def openai_whole(model: str, message: Say, usage: ScriptedUsage, tag: str) -> dict[str, Any]:
    calls = [
        {
            "id": f"call_{tag}_{number}",
            "type": "function",
            "function": {"name": part.name, "arguments": json.dumps(part.arguments)},
        }
        for number, part in enumerate(message.parts)
        if isinstance(part, Tool)
    ]
    text = "".join(part for part in message.parts if isinstance(part, str))
    said: dict[str, Any] = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return {
        "id": f"chatcmpl-{tag}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": said, "finish_reason": _openai_stop(message)}],
        "usage": _openai_usage(usage),
    }


def _anthropic_stop(message: Say) -> str:
    if message.cut:
        return "max_tokens"
    return "tool_use" if any(isinstance(part, Tool) for part in message.parts) else "end_turn"


def _anthropic_usage(usage: ScriptedUsage, tokens_out: int) -> dict[str, Any]:
    return {
        "input_tokens": usage.tokens_in,
        "output_tokens": tokens_out,
        "cache_read_input_tokens": usage.cache_read,
        "cache_creation_input_tokens": 0,
    }


def anthropic_stream(model: str, message: Say, usage: ScriptedUsage, tag: str) -> Iterator[bytes]:
    """Server-sent events of a message: usage of the prompt at the start, of the answer at the end."""

    def event(kind: str, **more: Any) -> bytes:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode()

    start = {"id": f"msg_{tag}", "type": "message", "role": "assistant", "model": model, "content": []}
    stops = {"stop_reason": None, "stop_sequence": None}
    yield event("message_start", message={**start, **stops, "usage": _anthropic_usage(usage, 1)})
    for number, part in enumerate(message.parts):
        if isinstance(part, str):
            block: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(part)]
        else:
            block = {"type": "tool_use", "id": f"toolu_{tag}_{number}", "name": part.name, "input": {}}
            texts = pieces(json.dumps(part.arguments))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in texts]
        yield event("content_block_start", index=number, content_block=block)
        for delta in deltas:
            yield event("content_block_delta", index=number, delta=delta)
        yield event("content_block_stop", index=number)
    end = {"stop_reason": _anthropic_stop(message), "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": usage.tokens_out})
    yield event("message_stop")


def anthropic_whole(model: str, message: Say, usage: ScriptedUsage, tag: str) -> dict[str, Any]:
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "tool_use", "id": f"toolu_{tag}_{number}", "name": part.name, "input": part.arguments}
        for number, part in enumerate(message.parts)
    ]
    return {
        "id": f"msg_{tag}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": _anthropic_stop(message),
        "stop_sequence": None,
        "usage": _anthropic_usage(usage, usage.tokens_out),
    }
