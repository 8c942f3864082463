"""Anthropic's messages API: docs.anthropic.com/en/api/messages, and what other servers of it tell otherwise."""

import re
from collections.abc import Collection, Iterable
from typing import Any

from pidispatch.domain.providers import wireapis
from pidispatch.domain.providers.rates import CacheWrites
from pidispatch.gateway.wire.api import NOTHING, OF_ANY_API, TIERS, ErrorText, Reader, WireApi, names
from pidispatch.gateway.wire.members import check_setting, size
from pidispatch.gateway.wire.references import MOST_SHOWN, looks_like_address
from pidispatch.gateway.wire.scanning import NotARequest, Span, as_count, as_dict, first_count, value
from pidispatch.gateway.wire.shapes import CACHE_CONTROL, shape, shapes
from pidispatch.gateway.wire.usage import Tally, Usage, text_size

_MOST_SOURCE = 8_192
_IN_RESULTS = frozenset({"text", "thinking", "redacted_thinking", "image", "document", "search_result"})
_IN_DOCUMENTS = frozenset({"text", "image"})
_IN_SYSTEM = frozenset({"text"})
# Those that pi asks for (its `anthropic-messages`), and older ones of the same kind. Not among them is what makes the
# provider run, keep or fetch something (code-execution, web-fetch, mcp-client, files-api, skills, context-management,
# compact, managed-agents, message-threads) or bill otherwise (fast-mode).
# https://docs.anthropic.com/en/api/beta-headers
HARMLESS = frozenset(
    {
        "fine-grained-tool-streaming-2025-05-14",
        "interleaved-thinking-2025-05-14",
        "server-side-fallback-2026-07-01",
        "mid-conversation-output-config-2026-07-01",
        "thinking-binding-controls-2026-08-01",
        "inline-tools-2026-09-15",
        "prompt-caching-2024-07-31",
        "extended-cache-ttl-2025-04-11",
        "token-efficient-tools-2025-02-19",
        "output-128k-2025-02-19",
        "context-1m-2025-08-07",
        "dev-full-thinking-2025-05-14",
        "structured-outputs-2025-11-13",
        "structured-outputs-2025-12-15",
        "effort-2025-11-24",
        "tool-examples-2025-10-29",
    }
)
# https://docs.anthropic.com/en/api/messages
_MESSAGE = shape("role content* output_config*")
_BLOCKS = shapes(
    text="type text citations* cache_control*",
    thinking="type thinking signature",
    redacted_thinking="type data",
    tool_use="type id name input* cache_control*",
    tool_result="type tool_use_id content* is_error cache_control*",
    image="type source* cache_control*",
    document="type source* title context citations* cache_control*",
    search_result="type source title content* citations* cache_control*",
    tool_addition="type tool* cache_control*",
    tool_removal="type tool* cache_control*",
)
_SOURCES = shapes(
    base64="type media_type data", text="type media_type data", url="type url", file="type file_id", content="type content*"
)  # fmt: skip
_CHANGED_TOOL = shape("type name definition*")


def _check_system(reader: Reader, span: Span) -> None:
    """The system prompt: text, or blocks of it."""
    try:
        reader.parts(span, _text_block, "system")
    except NotARequest as error:
        reader.found.refuse(f"system cannot be read: {error}")


def _weigh(reader: Reader, span: Span) -> int:
    named = reader.shape(span, _MESSAGE, "a message")
    if "output_config" in named:
        check_setting(reader, "output_config", named["output_config"])
    return size(span) + reader.parts(named.get("content"), _message_block, "content")


def _message_block(reader: Reader, span: Span) -> int:
    return _block(reader, span, _BLOCKS)


def _result_block(reader: Reader, span: Span) -> int:
    return _block(reader, span, _IN_RESULTS)


def _text_block(reader: Reader, span: Span) -> int:
    return _block(reader, span, _IN_SYSTEM)


def _document_block(reader: Reader, span: Span) -> int:
    return _block(reader, span, _IN_DOCUMENTS)


def _block(reader: Reader, span: Span, kinds: Collection[str]) -> int:
    """What is to be added to the bytes of a block."""
    named = reader.members(span)
    kind = reader.kind(named)
    if not reader.is_known(kind, kinds, span, "content") or kind is None:
        return 0
    reader.check(named, _BLOCKS[kind], f"content of type {kind}")
    reader.shape(named.get("cache_control"), CACHE_CONTROL, "cache_control")
    _check_citations(reader, named.get("citations"))
    if kind == "tool_use":
        return size(span)
    if kind == "tool_result":
        return reader.parts(named.get("content"), _result_block, "content")
    if kind in {"tool_addition", "tool_removal"}:
        _check_change(reader, named.get("tool"))
        return size(span)
    if kind == "search_result":
        _check_label(reader, named.get("source"))
        return reader.parts(named.get("content"), _text_block, "content")
    return _source(reader, kind, named.get("source")) if kind in {"image", "document"} else 0


def _source(reader: Reader, kind: str, span: Span | None) -> int:
    what = f"content of type {kind}"
    named = {} if span is None else reader.members(span)
    form = reader.kind(named)
    if span is None or not reader.is_known(form, _SOURCES, span, "a source") or form is None:
        reader.found.unbound(what)
        return 0
    reader.check(named, _SOURCES[form], f"the source of {what}")
    media = reader.word(named.get("media_type"))
    if form == "url" and kind == "image":
        return reader.image(named.get("url"), what)
    if form == "url":
        reader.address(named.get("url"), what)
        return 0
    if form == "file":
        reader.found.word("files", f"{what} that the provider keeps")
    elif kind == "image" and form == "base64" and media.startswith("image/"):
        return reader.api.image - reader.text_size(named.get("data"))
    elif kind == "document" and form == "content":
        return reader.parts(named.get("content"), _document_block, "content")
    elif kind != "document" or form != "text":
        reader.found.unbound(what)
    return 0


def _check_citations(reader: Reader, span: Span | None) -> None:
    """With them the provider cuts a document up, and writes numbers beside its parts."""
    if reader.is_nothing(span) or span is None:
        return
    if value(reader.body, span, _MOST_SOURCE) != {"enabled": False}:
        reader.found.unbound("citations")


def _check_label(reader: Reader, span: Span | None) -> None:
    """Where a search result says that it is from: nobody need fetch it, and nobody is asked to when it is an address."""
    text = value(reader.body, span, _MOST_SOURCE)
    if isinstance(text, str) and looks_like_address(text):
        reader.found.address(text)


def _check_change(reader: Reader, span: Span | None) -> None:
    named = reader.shape(span, _CHANGED_TOOL, "a tool")
    kind = reader.kind(named)
    if kind == "tool_definition" and "definition" in named:
        reader.tool(named["definition"])
    elif span is not None and kind != "tool_reference":
        reader.is_known(kind or "", (), span, "a tool")


_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


def _read(tally: Tally, message: dict[str, Any]) -> None:
    """One event of a message stream, or a whole message (docs.anthropic.com/en/api/messages-streaming)."""
    kind = message.get("type")
    if kind == "error":
        tally.failed = True
    elif kind in ("content_block_start", "content_block_delta"):
        tally.write(text_size(message.get("delta")) + text_size(message.get("content_block")))
    elif kind == "message_delta":
        _stop(tally, as_dict(message.get("delta")).get("stop_reason"))
    elif kind == "message":
        tally.write(text_size(message.get("content")))
        _stop(tally, message.get("stop_reason"))
    # With the beginning, with the end, or behind it: wherever a server tells it.
    for holder in (as_dict(message.get("message")), message):
        if usage := as_dict(holder.get("usage")):
            _tell(tally, usage)


def _stop(tally: Tally, reason: Any) -> None:
    if isinstance(reason, str):
        tally.finish(_STOPS.get(reason, "error"))


def _tell(tally: Tally, usage: dict[str, Any]) -> None:
    """Counts are cumulative; what a later report leaves out is as it was."""
    before = tally.usage or Usage(0, None)
    split = as_dict(usage.get("cache_creation"))
    long = first_count(split.get("ephemeral_1h_input_tokens"), before.cache_write_1h)
    parts = first_count(split.get("ephemeral_5m_input_tokens")) + first_count(
        split.get("ephemeral_1h_input_tokens")
    )
    written = first_count(usage.get("cache_creation_input_tokens"), before.cache_write)
    details = as_dict(usage.get("output_tokens_details"))
    tally.tell(
        Usage(
            fresh=first_count(usage.get("input_tokens"), before.fresh),
            out=as_count(usage.get("output_tokens")),
            cache_read=first_count(usage.get("cache_read_input_tokens"), before.cache_read),
            cache_write=max(written, parts),
            cache_write_1h=long,
            reasoning=first_count(details.get("thinking_tokens"), details.get("reasoning_tokens")),
        )
    )


def _beta(reader: Reader, span: Span) -> int:
    word = reader.word(span)
    if word not in HARMLESS:
        reader.unknown(word or "betas", f"{word[:MOST_SHOWN]} in betas", span)
    return 0


def _betas_passed_on(text: str, listed: Iterable[str]) -> str:
    """Of the betas in a header field those that may be asked for: the harmless, and those of tools an operator listed.

    `web_fetch` is a word for `web-fetch-2025-09-10`, and `files` for `files-api-2025-04-14`.
    """
    words = frozenset(listed)
    prefixes = tuple(f"{word.replace('_', '-')}-" for word in words)
    betas = dict.fromkeys(beta.strip() for beta in text.split(","))
    return ",".join(
        beta
        for beta in betas
        if beta in HARMLESS or beta in words or (prefixes and beta.startswith(prefixes))
    )


def _key(key: str) -> tuple[str, str]:
    return ("x-api-key", key)


def _error(error: ErrorText) -> dict[str, Any]:
    return {"type": "error", "error": {"type": error.kind, "message": error.message}}


ANTHROPIC = WireApi(
    name=wireapis.ANTHROPIC,
    path="/v1/messages",
    conversation="messages",
    limits=("max_tokens",),
    members=names(
        OF_ANY_API,
        "messages max_tokens system top_k stop_sequences thinking output_config output_format betas cache_control",
        "fallbacks",
    ),
    only={
        "service_tier": TIERS,
        "speed": (None, "standard"),
        "inference_geo": (None, "global"),
        "container": NOTHING,
        "mcp_servers": NOTHING,
        "context_management": NOTHING,
    },
    schemas=("tools", "output_config", "output_format"),
    tools=frozenset({None, "custom"}),
    image=5_000,  # "Vision": 4,784 tokens for models that see 2,576 pixels
    weigh=_weigh,
    checks={"system": _check_system},
    entries={"betas": _beta},
    cache_writes=CacheWrites.NONE,
    queries=frozenset({"beta=true"}),
    # https://docs.anthropic.com/en/api/versioning, https://docs.anthropic.com/en/api/beta-headers
    fields={
        "anthropic-version": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
        "anthropic-dangerous-direct-browser-access": re.compile(r"true"),
    },
    listed={"anthropic-beta": _betas_passed_on},
    key=_key,
    read=_read,
    tells_input=frozenset({"anthropic"}),
    error=_error,
)
