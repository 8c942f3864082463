"""OpenAI's Responses: platform.openai.com/docs/api-reference/responses."""

from collections.abc import Mapping
from typing import Any

from pidispatch.domain.providers import wireapis
from pidispatch.gateway.wire.api import (
    NOTHING,
    OF_ANY_API,
    OF_OPENAI,
    TIERS,
    Reader,
    WireApi,
    bearer,
    names,
    openai_error,
)
from pidispatch.gateway.wire.members import check_annotations, check_file, check_setting, size
from pidispatch.gateway.wire.references import MOST_SHOWN
from pidispatch.gateway.wire.scanning import Span, as_count, as_dict, as_dicts, first_count
from pidispatch.gateway.wire.shapes import CACHE_CONTROL, shape, shapes
from pidispatch.gateway.wire.usage import Tally, split_usage, text_size

# What an item must hold of its own: else it stands for one that the provider keeps.
_HOLDS = {
    "message": "content",
    "function_call": "arguments",
    "custom_tool_call": "input",
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "additional_tools": "tools",
    "configuration_update": "reasoning",
    "tool_search_call": "arguments",
    "tool_search_output": "tools",
}
_ELSEWHERE = "an item that stands for one that is kept elsewhere: the whole request must stand in its body"
_INCLUDED = frozenset({"reasoning.encrypted_content", "message.output_text.logprobs"})
_EASY_MESSAGE = shape("role content* phase")
_ITEMS = shapes(
    message="type id role content* status phase",
    function_call="type id call_id name arguments status namespace",
    custom_tool_call="type id call_id name input status namespace",
    function_call_output="type id call_id output* status",
    custom_tool_call_output="type id call_id output* status",
    reasoning="type id summary* content* encrypted_content status",
    additional_tools="type id role tools*",
    configuration_update="type id reasoning*",
    tool_search_call="type id call_id execution status arguments*",
    tool_search_output="type id call_id execution status tools*",
)
_ITEM_PARTS = shapes(
    input_text="type text cache_control*",
    output_text="type text annotations* logprobs*",
    text="type text",
    refusal="type refusal",
    summary_text="type text",
    reasoning_text="type text",
    input_image="type image_url file_id detail",
    input_file="type file_id file_url file_data filename",
)


def _weigh(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    kind = reader.kind(named)
    if kind == "item_reference":
        reader.found.refuse(f"input has {_ELSEWHERE}")
        return 0
    if kind is None and "role" in named and not reader.is_nothing(named.get("content")):
        reader.check(named, _EASY_MESSAGE, "a message")
        return size(span) + reader.parts(named["content"], _item_part, "content")
    if kind is None:
        reader.found.refuse(f"input has an item without a type, or {_ELSEWHERE}")
        return 0
    if not reader.is_known(kind, _ITEMS, span, "an item"):
        return 0
    reader.check(named, _ITEMS[kind], f"an item of type {kind}")
    holds = _HOLDS.get(kind)
    if holds is not None and not _is_whole(reader, kind, named, holds):
        reader.found.refuse(f"input has {_ELSEWHERE} (type {kind[:MOST_SHOWN]} without {holds})")
        return 0
    return size(span) + _added(reader, kind, named, span)


def _is_whole(reader: Reader, kind: str, named: Mapping[str, Span], holds: str) -> bool:
    if kind == "message":
        return "role" in named and not reader.is_nothing(named.get(holds))
    return not reader.is_null(named.get(holds))


def _added(reader: Reader, kind: str, named: Mapping[str, Span], span: Span) -> int:
    """What is to be added to the bytes of an item of a known type."""
    if kind == "message":
        return reader.parts(named.get("content"), _item_part, "content")
    if kind in {"function_call_output", "custom_tool_call_output"}:
        return reader.parts(named.get("output"), _item_part, "output")
    if kind.startswith("tool_search") and reader.word(named.get("execution")) != "client":
        reader.found.word("tool_search", "a search for tools that the provider runs")
    if kind in {"additional_tools", "tool_search_output"}:
        reader.tools(named.get("tools"))
        return 2 * size(span)
    if kind == "configuration_update":
        check_setting(reader, "reasoning", named["reasoning"])
    if kind == "reasoning":
        _check_reasoning(reader, named)
        return 0
    return size(span)


def _check_reasoning(reader: Reader, named: Mapping[str, Span]) -> None:
    parts = [named.get(name) for name in ("summary", "content")]
    for part in parts:
        reader.parts(part, _item_part, "reasoning")
    if reader.text_size(named.get("encrypted_content")) > 0:
        return
    # The provider may go by its id alone.
    reader.found.unbound("an item of type reasoning without encrypted_content")
    if all(reader.is_nothing(part) for part in parts):
        reader.found.refuse(f"input has {_ELSEWHERE} (type reasoning)")


def _item_part(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    kind = reader.kind(named)
    if not reader.is_known(kind, _ITEM_PARTS, span, "content") or kind is None:
        return 0
    what = f"content of type {kind}"
    reader.check(named, _ITEM_PARTS[kind], what)
    reader.shape(named.get("cache_control"), CACHE_CONTROL, "cache_control")
    check_annotations(reader, named.get("annotations"))
    if kind == "input_file":
        check_file(reader, named, what)
    if kind != "input_image":
        return 0
    if not reader.is_null(named.get("file_id")):
        reader.found.word("files", f"{what} that the provider keeps")
        if reader.is_null(named.get("image_url")):
            return 0
    return reader.image(named.get("image_url"), what)


# What the client is to do before the model goes on.
_CALLS = (
    *("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"),
    *("computer_call", "mcp_approval_request"),
)
_ENDED = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_ITEM = ("response.output_item.added", "response.output_item.done")


def _read(tally: Tally, message: dict[str, Any]) -> None:
    """One event of a response stream, or a whole response (platform.openai.com/docs/api-reference/responses)."""
    kind = message.get("type")
    if kind == "error":
        tally.failed = True
    elif kind in _ENDED:
        _whole(tally, as_dict(message.get("response")))
    elif kind in _ITEM:
        _item(tally, as_dict(message.get("item")))
    elif isinstance(kind, str) and kind.endswith(".delta"):
        tally.write(text_size(message.get("delta")))
    elif kind is None:
        _whole(tally, message)
    if kind is not None:
        _tell(tally, as_dict(message.get("usage")))


def _item(tally: Tally, item: dict[str, Any]) -> None:
    tally.calls = tally.calls or item.get("type") in _CALLS
    # Reasoning that is not shown is paid for all the same; this is all that can be seen of it before the end.
    tally.write(text_size(item.get("encrypted_content")))


def _whole(tally: Tally, response: dict[str, Any]) -> None:
    output = as_dicts(response.get("output"))
    tally.calls = tally.calls or any(item.get("type") in _CALLS for item in output)
    if (size := text_size(output)) > tally.text:
        tally.write(size - tally.text)
    tally.failed = tally.failed or bool(response.get("error"))
    if (stop := _stop(tally, response)) is not None:
        tally.finish(stop)
    _tell(tally, as_dict(response.get("usage")))


def _stop(tally: Tally, response: dict[str, Any]) -> str | None:
    """None for a response that has not ended: `background` ones are answered before they begin."""
    status = response.get("status")
    if status == "completed":
        return "tool_use" if tally.calls else "stop"
    if status in ("queued", "in_progress", None):
        return None
    reason = as_dict(response.get("incomplete_details")).get("reason")
    return "length" if status == "incomplete" and reason == "max_output_tokens" else "error"


def _tell(tally: Tally, usage: dict[str, Any]) -> None:
    if as_count(usage.get("input_tokens")) is None:
        return
    asked = as_dict(usage.get("input_tokens_details"))
    made = as_dict(usage.get("output_tokens_details"))
    tally.tell(
        split_usage(
            prompt=first_count(usage.get("input_tokens")),
            read=first_count(asked.get("cached_tokens")),
            written=first_count(asked.get("cache_write_tokens")),
            out=as_count(usage.get("output_tokens")),
            total=as_count(usage.get("total_tokens")),
            reasoning=first_count(made.get("reasoning_tokens")),
        )
    )


def _included(reader: Reader, span: Span) -> int:
    word = reader.word(span)
    if word not in _INCLUDED:
        reader.unknown(word.partition(".")[0] or "include", f"{word[:MOST_SHOWN]} in include", span)
    return 0


RESPONSES = WireApi(
    name=wireapis.RESPONSES,
    path="/v1/responses",
    conversation="input",
    limits=("max_output_tokens",),
    members=names(
        OF_ANY_API,
        OF_OPENAI,
        "input instructions max_output_tokens reasoning text include truncation max_tool_calls",
        "prompt_cache_options",
    ),
    only={
        "service_tier": TIERS,
        "context_management": NOTHING,
        "modalities": (None, ["text"]),
    },
    schemas=("tools", "text"),
    tools=frozenset({"function", "custom"}),
    image=49_152,  # as of chat completions
    weigh=_weigh,
    entries={"include": _included},
    key=bearer,
    read=_read,
    error=openai_error,
)
