"""Write one scripted message in the Responses API, streamed or whole."""

import json
from collections.abc import Iterator
from typing import Any

from pidispatch.entrypoints.scripted.scenarios import Say, ScriptedUsage, Tool
from pidispatch.entrypoints.scripted.wire import pieces


def responses_stream(model: str, message: Say, usage: ScriptedUsage, tag: str) -> Iterator[bytes]:
    """Server-sent events of a response; its usage comes with the last one."""
    number = 0

    def event(kind: str, **more: Any) -> bytes:
        nonlocal number
        number += 1
        data = json.dumps({"type": kind, "sequence_number": number, **more})
        return f"event: {kind}\ndata: {data}\n\n".encode()

    begun = {**_head(model, tag), "status": "in_progress", "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, part in enumerate(message.parts):
        item = _item(part, tag, index)
        place = {"output_index": index, "item_id": item["id"]}
        if isinstance(part, str):
            place["content_index"] = 0
            started = {**item, "status": "in_progress", "content": []}
            yield event("response.output_item.added", output_index=index, item=started)
            yield event("response.content_part.added", **place, part=_text(""))
            for piece in pieces(part):
                yield event("response.output_text.delta", **place, delta=piece)
            yield event("response.output_text.done", **place, text=part)
            yield event("response.content_part.done", **place, part=_text(part))
        else:
            started = {**item, "status": "in_progress", "arguments": ""}
            yield event("response.output_item.added", output_index=index, item=started)
            for piece in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"])
        yield event("response.output_item.done", output_index=index, item=item)
    whole = responses_whole(model, message, usage, tag)
    yield event(f"response.{whole['status']}", response=whole)


def responses_whole(model: str, message: Say, usage: ScriptedUsage, tag: str) -> dict[str, Any]:
    return {
        **_head(model, tag),
        "status": "incomplete" if message.cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if message.cut else None,
        "output": [_item(part, tag, index) for index, part in enumerate(message.parts)],
        "usage": _usage(usage),
    }


def _head(model: str, tag: str) -> dict[str, Any]:
    return {"id": f"resp_{tag}", "object": "response", "created_at": 0, "model": model, "error": None}


def _item(part: str | Tool, tag: str, index: int) -> dict[str, Any]:
    if isinstance(part, str):
        said = {"role": "assistant", "content": [_text(part)]}
        return {"id": f"msg_{tag}_{index}", "type": "message", "status": "completed", **said}
    call = {"call_id": f"call_{tag}_{index}", "name": part.name, "arguments": json.dumps(part.arguments)}
    return {"id": f"fc_{tag}_{index}", "type": "function_call", "status": "completed", **call}


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _usage(usage: ScriptedUsage) -> dict[str, Any]:
    asked = usage.tokens_in + usage.cache_read
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + usage.tokens_out,
    }


def steps_of_input(items: Any) -> int:
    """Answers after the last thing a person said: each is some items of the model's in a row."""
    count, answering = 0, False
    for item in items if isinstance(items, list) else []:
        kind, role = str(item.get("type")), item.get("role")
        if role == "assistant" or kind in {"reasoning", "function_call", "custom_tool_call"}:
            count += not answering
            answering = True
        elif kind.endswith("_output"):
            answering = False
        elif role == "user":
            count, answering = 0, False
    return count
