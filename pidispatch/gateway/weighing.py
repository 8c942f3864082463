"""Bound the tokens of one message by its bytes, and tell what in it no number of bytes bounds.

A token is at least one byte of text. Images are bounded by what the provider makes of them at most, wherever their data
stands in their place; documents, files and what is only referred to are not bounded at all.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.gateway.dialects import Dialect
from pidispatch.gateway.scanning import NotARequest, Span, elements, key, members, value

MOST_BLOCKS = 2_000
_MOST_WORD = 256

_ANTHROPIC_TEXT = frozenset({"text", "thinking", "redacted_thinking", "search_result", "tool_removal"})
_CHAT_TEXT = frozenset({"text", "refusal", "thinking"})
_RESPONSES_TEXT = frozenset(
    {"input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text"}
)
_ANTHROPIC_MESSAGE = frozenset({"role", "content", "output_config"})
_CHAT_MESSAGE = frozenset(
    [
        "role",
        "content",
        "name",
        "tool_calls",
        "tool_call_id",
        "function_call",
        "refusal",
        "reasoning_content",
        "reasoning",
        "reasoning_text",
        "reasoning_details",
        "annotations",
        "cache_control",
        "tool_name",
        "prefix",
    ]
)
_CALLS = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})


class Unbounded(Exception):
    """The named part of a request may use any number of tokens."""


def weigh(api: str, dialect: Dialect, body: bytes, span: Span) -> int:
    """Tokens at most of one element of the conversation. Raises Unbounded."""
    try:
        return _WEIGH[api](dialect, body, span)
    except NotARequest as error:
        raise Unbounded(f"{dialect.conversation}, which cannot be read") from error


def check_tools(dialect: Dialect, body: bytes, span: Span | None) -> None:
    """Raise Unbounded for a tool that the provider runs itself: it is billed apart, and asks the model again."""
    if span is None or body[span[0] : span[1]] == b"null":
        return
    try:
        for tool in elements(body, span):
            kind = _word(body, _fields(body, tool).get("type"))
            if kind not in dialect.tools:
                raise Unbounded(f"a tool of type {kind}")
    except NotARequest as error:
        raise Unbounded("tools, which cannot be read") from error


def _anthropic(dialect: Dialect, body: bytes, span: Span) -> int:
    found = _fields(body, span)
    _only(found, _ANTHROPIC_MESSAGE, "a message")
    return _size(span) + _blocks(dialect, body, found.get("content"), _anthropic_block)


def _anthropic_block(dialect: Dialect, body: bytes, span: Span) -> int:
    """What is to be added to the bytes of a block."""
    found = _fields(body, span)
    kind = _word(body, found.get("type"))
    if kind == "tool_use":
        return _size(span)
    if kind == "tool_result":
        return _blocks(dialect, body, found.get("content"), _anthropic_part)
    if kind == "tool_addition":
        _check_added(dialect, body, found.get("tool"))
        return _size(span)
    return _anthropic_part(dialect, body, span)


def _anthropic_part(dialect: Dialect, body: bytes, span: Span) -> int:
    """The same of a block that may stand in a tool's result too."""
    found = _fields(body, span)
    kind = _word(body, found.get("type"))
    if kind in _ANTHROPIC_TEXT:
        return 0
    source = _fields(body, found["source"]) if kind in {"image", "document"} and "source" in found else {}
    data = _word(body, source.get("type"))
    media = _word(body, source.get("media_type")) or ""
    if kind == "image" and data == "base64" and media.startswith("image/"):
        return dialect.image - _text_size(body, source.get("data"))
    if kind == "image" and data == "url":
        return dialect.image
    if kind == "document" and data == "text":
        return 0
    raise Unbounded(f"content of type {kind}")


def _check_added(dialect: Dialect, body: bytes, span: Span | None) -> None:
    tool = {} if span is None else _fields(body, span)
    kind = _word(body, tool.get("type"))
    if kind == "tool_definition" and "definition" in tool:
        kind = _word(body, _fields(body, tool["definition"]).get("type"))
        if kind in dialect.tools:
            return
    elif kind == "tool_reference":
        return
    raise Unbounded(f"a tool of type {kind}")


def _chat(dialect: Dialect, body: bytes, span: Span) -> int:
    found = _fields(body, span)
    _only({name: at for name, at in found.items() if not _is_null(body, at)}, _CHAT_MESSAGE, "a message")
    calls = sum(_size(found[name]) for name in ("tool_calls", "function_call") if name in found)
    return _size(span) + calls + _blocks(dialect, body, found.get("content"), _chat_part)


def _chat_part(dialect: Dialect, body: bytes, span: Span) -> int:
    found = _fields(body, span)
    kind = _word(body, found.get("type"))
    if kind in _CHAT_TEXT:
        return 0
    if kind == "image_url" and "image_url" in found:
        at = found["image_url"]
        url = _fields(body, at).get("url") if body[at[0] : at[0] + 1] == b"{" else at
        return _image(dialect, body, url)
    raise Unbounded(f"content of type {kind}")


def _responses(dialect: Dialect, body: bytes, span: Span) -> int:
    found = _fields(body, span)
    kind = _word(body, found.get("type")) or "message"
    if kind == "message":
        return _size(span) + _blocks(dialect, body, found.get("content"), _responses_part)
    if kind in _CALLS:
        return 2 * _size(span)
    if kind in _OUTPUTS:
        return _size(span) + _blocks(dialect, body, found.get("output"), _responses_part)
    if kind == "reasoning" and _text_size(body, found.get("encrypted_content")) > 0:
        return _size(span)
    if kind == "additional_tools":
        check_tools(dialect, body, found.get("tools"))
        return 2 * _size(span)
    # Among them reasoning that only the provider has.
    raise Unbounded(f"an item of type {kind}")


def _responses_part(dialect: Dialect, body: bytes, span: Span) -> int:
    found = _fields(body, span)
    kind = _word(body, found.get("type"))
    if kind in _RESPONSES_TEXT:
        return 0
    if kind == "input_image" and _is_null(body, found.get("file_id")):
        return _image(dialect, body, found.get("image_url"))
    raise Unbounded(f"content of type {kind}")


def _image(dialect: Dialect, body: bytes, span: Span | None) -> int:
    """An image by its address, with its data in it or not."""
    size = _text_size(body, span)
    if size:
        start = body[span[0] + 1 : span[0] + 12].lower() if span else b""
        if start.startswith(b"data:image/"):
            return dialect.image - size
        if start.startswith((b"https://", b"http://")):
            return dialect.image
    raise Unbounded("an image that is neither data nor an http address")


def _blocks(
    dialect: Dialect, body: bytes, span: Span | None, weight: Callable[[Dialect, bytes, Span], int]
) -> int:
    """The sum over the parts of a content; a content that is text adds nothing to its bytes."""
    if span is None or body[span[0] : span[0] + 1] == b'"' or _is_null(body, span):
        return 0
    added = 0
    for count, block in enumerate(elements(body, span)):
        if count >= MOST_BLOCKS:
            raise Unbounded("content of too many parts")
        added += weight(dialect, body, block)
    return added


def _fields(body: bytes, span: Span) -> dict[str, Span]:
    """The members of an object; one that is given twice could be read in two ways."""
    found: dict[str, Span] = {}
    for raw, at in members(body, span[0])[0]:
        name = key(raw)
        if name in found:
            raise NotARequest(f"{name} is given twice")
        found[name] = at
    return found


def _only(found: Mapping[str, Span], names: frozenset[str], what: str) -> None:
    for name in found:
        if name not in names:
            raise Unbounded(f"{name} in {what}")


def _word(body: bytes, span: Span | None) -> Any:
    """A short text; None where there is none."""
    word = value(body, span, _MOST_WORD)
    if word is not None and not isinstance(word, str):
        raise NotARequest("a word is none")
    return word


def _text_size(body: bytes, span: Span | None) -> int:
    """The bytes between the quotes of a text, 0 for anything else."""
    return span[1] - span[0] - 2 if span is not None and body[span[0] : span[0] + 1] == b'"' else 0


def _is_null(body: bytes, span: Span | None) -> bool:
    return span is None or body[span[0] : span[1]] == b"null"


def _size(span: Span) -> int:
    return span[1] - span[0]


_WEIGH: Mapping[str, Callable[[Dialect, bytes, Span], int]] = {
    ANTHROPIC: _anthropic,
    OPENAI: _chat,
    RESPONSES: _responses,
}
