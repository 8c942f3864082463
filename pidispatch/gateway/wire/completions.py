"""Chat completions: platform.openai.com/docs/api-reference/chat, and what pi adds for other servers."""

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
from pidispatch.gateway.wire.members import check_annotations, check_data, check_file, size
from pidispatch.gateway.wire.scanning import Span, as_count, as_dict, as_dicts, first_count
from pidispatch.gateway.wire.shapes import CACHE_CONTROL, TOOL_INSIDE, shape, shapes
from pidispatch.gateway.wire.usage import Tally, Usage, split_usage, text_size

_CALL_TYPES = frozenset({None, "function", "custom"})
_DETAIL_TYPES = frozenset({"reasoning.summary", "reasoning.encrypted", "reasoning.text"})
# These take max_completion_tokens (pi's table says which); elsewhere it may be ignored, and only max_tokens counts.
_HEARS_ALL = frozenset(
    {"cerebras", "groq", "huggingface", "kimi-coding", "openai", "openrouter", "xai", "xiaomi"}
)
_CHAT_MESSAGE = shape(
    "role content* name tool_calls* tool_call_id function_call* refusal reasoning_content reasoning reasoning_text"
    " reasoning_details* annotations* cache_control* tool_name prefix tools*"
)
_CHAT_PARTS = shapes(
    text="type text cache_control*",
    refusal="type refusal",
    thinking="type thinking*",
    image_url="type image_url* cache_control*",
    file="type file*",
    input_audio="type input_audio*",
)
_IMAGE_URL = shape("url detail")
_FILE = shape("file_id file_data filename")
_AUDIO = shape("data format")
_TOOL_CALL = shape("id type index function* custom* cache_control*")
_CALLED = shape("name arguments input")
_REASONING_DETAIL = shape("type id format index summary data text signature")


def _weigh(reader: Reader, span: Span) -> int:
    named = reader.shape(span, _CHAT_MESSAGE, "a message")
    again = sum(size(named[name]) for name in ("tool_calls", "function_call") if name in named)
    again += 2 * (size(named["tools"]) if "tools" in named else 0)
    reader.each(named.get("tool_calls"), _call, "tool_calls")
    reader.shape(named.get("function_call"), _CALLED, "function_call")
    reader.each(named.get("reasoning_details"), _detail, "reasoning_details")
    reader.shape(named.get("cache_control"), CACHE_CONTROL, "cache_control")
    reader.tools(named.get("tools"))
    check_annotations(reader, named.get("annotations"))
    return size(span) + again + reader.parts(named.get("content"), _part, "content")


def _call(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    if reader.is_known(reader.kind(named), _CALL_TYPES, span, "a call"):
        reader.check(named, _TOOL_CALL, "a call")
        for name in ("function", "custom"):
            reader.shape(named.get(name), _CALLED, "a call")
    return 0


def _detail(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    if reader.is_known(reader.kind(named), _DETAIL_TYPES, span, "a detail"):
        reader.check(named, _REASONING_DETAIL, "reasoning_details")
    return 0


def _part(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    kind = reader.kind(named)
    if not reader.is_known(kind, _CHAT_PARTS, span, "content") or kind is None:
        return 0
    what = f"content of type {kind}"
    reader.check(named, _CHAT_PARTS[kind], what)
    reader.shape(named.get("cache_control"), CACHE_CONTROL, "cache_control")
    at = named.get(kind)
    if kind == "thinking":
        return reader.parts(at, _part, "thinking")
    if kind == "image_url":
        url = at if reader.is_text(at) else reader.shape(at, _IMAGE_URL, what).get("url")
        return reader.image(url, what)
    if kind == "file":
        check_file(reader, reader.shape(at, _FILE, what), what)
    elif kind == "input_audio":
        check_data(reader, reader.shape(at, _AUDIO, what).get("data"), what)
    return 0


_STOPS = {
    "stop": "stop",
    "end": "stop",
    "eos": "stop",
    "length": "length",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
}


def _read(tally: Tally, message: dict[str, Any]) -> None:
    """One chunk of a chat completion, or a whole one (platform.openai.com/docs/api-reference/chat)."""
    tally.failed = tally.failed or bool(message.get("error"))
    choices = as_dicts(message.get("choices"))
    for number, choice in enumerate(choices):
        tally.write(
            text_size(choice.get("delta")) + text_size(choice.get("message")) + text_size(choice.get("text"))
        )
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            place = as_count(choice.get("index"))
            tally.finish(_STOPS.get(reason, "error"), number if place is None else place)
    reports = [message.get("usage"), as_dict(message.get("x_groq")).get("usage")]
    if tally.choices == 1:  # Moonshot's; of several answers nobody knows whether each says its own part
        reports += [choice.get("usage") for choice in choices]
    for report in map(as_dict, reports):
        if as_count(report.get("prompt_tokens")) is not None:
            tally.tell(_usage(report))


def _usage(usage: dict[str, Any]) -> Usage:
    asked = as_dict(usage.get("prompt_tokens_details"))
    made = as_dict(usage.get("completion_tokens_details"))
    read = first_count(
        asked.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens")
    )
    return split_usage(
        prompt=first_count(usage.get("prompt_tokens")),
        read=read,
        written=first_count(asked.get("cache_write_tokens")),
        out=as_count(usage.get("completion_tokens")),
        total=as_count(usage.get("total_tokens")),
        reasoning=first_count(made.get("reasoning_tokens"), usage.get("reasoning_tokens")),
    )


def _check_functions(reader: Reader, span: Span) -> None:
    reader.each(span, _function, "functions")


def _function(reader: Reader, span: Span) -> int:
    reader.shape(span, TOOL_INSIDE, "functions")
    reader.schema(span)
    return 0


COMPLETIONS = WireApi(
    name=wireapis.OPENAI,
    path="/v1/chat/completions",
    conversation="messages",
    limits=("max_completion_tokens", "max_tokens"),
    hears_all=_HEARS_ALL,
    members=names(
        OF_ANY_API,
        OF_OPENAI,
        "messages max_tokens max_completion_tokens n best_of stop seed logit_bias logprobs",
        "presence_penalty frequency_penalty response_format functions function_call reasoning_effort verbosity",
        "reasoning include_reasoning reasoning_format thinking enable_thinking thinking_budget top_k min_p",
        "thinking_token_budget repetition_penalty chat_template_kwargs chat_template_args tool_stream priority",
    ),
    only={
        "service_tier": TIERS,
        "modalities": (None, ["text"]),
        "audio": NOTHING,
        "prediction": NOTHING,
        "web_search_options": (None,),
        "provider": NOTHING,
    },
    schemas=("tools", "functions", "response_format", "chat_template_kwargs", "chat_template_args"),
    tools=frozenset({None, "function", "custom"}),
    # "Images and vision": the dearest is gpt-4o-mini's, 2,833 tokens and 5,667 for each of at most eight tiles.
    image=49_152,
    weigh=_weigh,
    checks={"functions": _check_functions},
    key=bearer,
    read=_read,
    asks_for_usage=True,
    error=openai_error,
)
