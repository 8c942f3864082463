"""Bound the tokens of one element of a conversation by its bytes, and keep what in it leads elsewhere or has no bound.

A token is at least one byte of text. Images are bounded by what the provider makes of them at most, wherever their data
stands in their place; documents and what is only referred to are not bounded at all.
"""

import re
from collections.abc import Callable, Collection, Mapping

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.gateway import shapes
from pidispatch.gateway.members import check_setting
from pidispatch.gateway.reading import Reader
from pidispatch.gateway.references import MOST_SHOWN, looks_like_address
from pidispatch.gateway.scanning import NotARequest, Span, value

_MOST_SOURCE = 8_192
# Base64 has neither a colon nor a backslash.
_SCHEME = re.compile(rb"[^:\\]{0,32}[:\\]")
_IN_RESULTS = frozenset({"text", "thinking", "redacted_thinking", "image", "document", "search_result"})
_IN_DOCUMENTS = frozenset({"text", "image"})
_IN_SYSTEM = frozenset({"text"})
_CALL_TYPES = frozenset({None, "function", "custom"})
_DETAIL_TYPES = frozenset({"reasoning.summary", "reasoning.encrypted", "reasoning.text"})
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


def weigh(reader: Reader, span: Span) -> int:
    """Tokens at most of one element of the conversation. What has no bound is kept by the reader."""
    try:
        return _WEIGH[reader.api](reader, span)
    except NotARequest as error:
        reader.found.refuse(f"{reader.dialect.conversation}, which cannot be read: {error}")
        return 0


def check_system(reader: Reader, span: Span | None) -> None:
    """Anthropic's system prompt: text, or blocks of it."""
    try:
        reader.parts(span, _text_block, "system")
    except NotARequest as error:
        reader.found.refuse(f"system cannot be read: {error}")


def _anthropic(reader: Reader, span: Span) -> int:
    named = reader.shape(span, shapes.MESSAGE, "a message")
    if "output_config" in named:
        check_setting(reader, "output_config", named["output_config"])
    return _size(span) + reader.parts(named.get("content"), _message_block, "content")


def _message_block(reader: Reader, span: Span) -> int:
    return _block(reader, span, shapes.BLOCKS)


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
    reader.check(named, shapes.BLOCKS[kind], f"content of type {kind}")
    reader.shape(named.get("cache_control"), shapes.CACHE_CONTROL, "cache_control")
    _check_citations(reader, named.get("citations"))
    if kind == "tool_use":
        return _size(span)
    if kind == "tool_result":
        return reader.parts(named.get("content"), _result_block, "content")
    if kind in {"tool_addition", "tool_removal"}:
        _check_change(reader, named.get("tool"))
        return _size(span)
    if kind == "search_result":
        _check_label(reader, named.get("source"))
        return reader.parts(named.get("content"), _text_block, "content")
    return _source(reader, kind, named.get("source")) if kind in {"image", "document"} else 0


def _source(reader: Reader, kind: str, span: Span | None) -> int:
    what = f"content of type {kind}"
    named = {} if span is None else reader.members(span)
    form = reader.kind(named)
    if span is None or not reader.is_known(form, shapes.SOURCES, span, "a source") or form is None:
        reader.found.unbound(what)
        return 0
    reader.check(named, shapes.SOURCES[form], f"the source of {what}")
    media = reader.word(named.get("media_type"))
    if form == "url" and kind == "image":
        return reader.image(named.get("url"), what)
    if form == "url":
        reader.address(named.get("url"), what)
        return 0
    if form == "file":
        reader.found.word("files", f"{what} that the provider keeps")
    elif kind == "image" and form == "base64" and media.startswith("image/"):
        return reader.dialect.image - reader.text_size(named.get("data"))
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
    named = reader.shape(span, shapes.CHANGED_TOOL, "a tool")
    kind = reader.kind(named)
    if kind == "tool_definition" and "definition" in named:
        reader.tool(named["definition"])
    elif span is not None and kind != "tool_reference":
        reader.is_known(kind or "", (), span, "a tool")


def _chat(reader: Reader, span: Span) -> int:
    named = reader.shape(span, shapes.CHAT_MESSAGE, "a message")
    again = sum(_size(named[name]) for name in ("tool_calls", "function_call") if name in named)
    again += 2 * (_size(named["tools"]) if "tools" in named else 0)
    reader.each(named.get("tool_calls"), _chat_call, "tool_calls")
    reader.shape(named.get("function_call"), shapes.CALLED, "function_call")
    reader.each(named.get("reasoning_details"), _chat_detail, "reasoning_details")
    reader.shape(named.get("cache_control"), shapes.CACHE_CONTROL, "cache_control")
    reader.tools(named.get("tools"))
    _check_annotations(reader, named.get("annotations"))
    return _size(span) + again + reader.parts(named.get("content"), _chat_part, "content")


def _chat_call(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    if reader.is_known(reader.kind(named), _CALL_TYPES, span, "a call"):
        reader.check(named, shapes.TOOL_CALL, "a call")
        for name in ("function", "custom"):
            reader.shape(named.get(name), shapes.CALLED, "a call")
    return 0


def _chat_detail(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    if reader.is_known(reader.kind(named), _DETAIL_TYPES, span, "a detail"):
        reader.check(named, shapes.REASONING_DETAIL, "reasoning_details")
    return 0


def _check_annotations(reader: Reader, span: Span | None) -> None:
    """Some stand for files that were read before."""
    if not reader.is_nothing(span) and span is not None:
        reader.unknown("annotations", "annotations", span)


def _chat_part(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    kind = reader.kind(named)
    if not reader.is_known(kind, shapes.CHAT_PARTS, span, "content") or kind is None:
        return 0
    what = f"content of type {kind}"
    reader.check(named, shapes.CHAT_PARTS[kind], what)
    reader.shape(named.get("cache_control"), shapes.CACHE_CONTROL, "cache_control")
    at = named.get(kind)
    if kind == "thinking":
        return reader.parts(at, _chat_part, "thinking")
    if kind == "image_url":
        url = at if reader.is_text(at) else reader.shape(at, shapes.IMAGE_URL, what).get("url")
        return reader.image(url, what)
    if kind == "file":
        _check_file(reader, reader.shape(at, shapes.FILE, what), what)
    elif kind == "input_audio":
        _check_data(reader, reader.shape(at, shapes.AUDIO, what).get("data"), what)
    return 0


def _check_file(reader: Reader, named: Mapping[str, Span], what: str) -> None:
    """A file in a request: kept by the provider, lying at an address, or whole in its place."""
    reader.found.unbound(what)
    if not reader.is_null(named.get("file_id")):
        reader.found.word("files", f"{what} that the provider keeps")
    if not reader.is_null(named.get("file_url")):
        reader.address(named.get("file_url"), what)
    _check_data(reader, named.get("file_data"), what)


def _check_data(reader: Reader, span: Span | None, what: str) -> None:
    """What should be data may be an address for some servers."""
    reader.found.unbound(what)
    start = b"" if span is None else reader.body[span[0] + 1 : min(span[0] + 65, span[1])]
    if _SCHEME.match(start) and not start.lower().startswith(b"data:"):
        reader.address(span, what)


def _responses(reader: Reader, span: Span) -> int:
    named = reader.members(span)
    kind = reader.kind(named)
    if kind == "item_reference":
        reader.found.refuse(f"input has {_ELSEWHERE}")
        return 0
    if kind is None and "role" in named and not reader.is_nothing(named.get("content")):
        reader.check(named, shapes.EASY_MESSAGE, "a message")
        return _size(span) + reader.parts(named["content"], _item_part, "content")
    if kind is None:
        reader.found.refuse(f"input has an item without a type, or {_ELSEWHERE}")
        return 0
    if not reader.is_known(kind, shapes.ITEMS, span, "an item"):
        return 0
    reader.check(named, shapes.ITEMS[kind], f"an item of type {kind}")
    holds = _HOLDS.get(kind)
    if holds is not None and not _is_whole(reader, kind, named, holds):
        reader.found.refuse(f"input has {_ELSEWHERE} (type {kind[:MOST_SHOWN]} without {holds})")
        return 0
    return _size(span) + _item(reader, kind, named, span)


def _is_whole(reader: Reader, kind: str, named: Mapping[str, Span], holds: str) -> bool:
    if kind == "message":
        return "role" in named and not reader.is_nothing(named.get(holds))
    return not reader.is_null(named.get(holds))


def _item(reader: Reader, kind: str, named: Mapping[str, Span], span: Span) -> int:
    """What is to be added to the bytes of an item of a known type."""
    if kind == "message":
        return reader.parts(named.get("content"), _item_part, "content")
    if kind in {"function_call_output", "custom_tool_call_output"}:
        return reader.parts(named.get("output"), _item_part, "output")
    if kind.startswith("tool_search") and reader.word(named.get("execution")) != "client":
        reader.found.word("tool_search", "a search for tools that the provider runs")
    if kind in {"additional_tools", "tool_search_output"}:
        reader.tools(named.get("tools"))
        return 2 * _size(span)
    if kind == "configuration_update":
        check_setting(reader, "reasoning", named["reasoning"])
    if kind == "reasoning":
        _check_reasoning(reader, named)
        return 0
    return _size(span)


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
    if not reader.is_known(kind, shapes.ITEM_PARTS, span, "content") or kind is None:
        return 0
    what = f"content of type {kind}"
    reader.check(named, shapes.ITEM_PARTS[kind], what)
    reader.shape(named.get("cache_control"), shapes.CACHE_CONTROL, "cache_control")
    _check_annotations(reader, named.get("annotations"))
    if kind == "input_file":
        _check_file(reader, named, what)
    if kind != "input_image":
        return 0
    if not reader.is_null(named.get("file_id")):
        reader.found.word("files", f"{what} that the provider keeps")
        if reader.is_null(named.get("image_url")):
            return 0
    return reader.image(named.get("image_url"), what)


def _size(span: Span) -> int:
    return span[1] - span[0]


_WEIGH: Mapping[str, Callable[[Reader, Span], int]] = {
    ANTHROPIC: _anthropic,
    OPENAI: _chat,
    RESPONSES: _responses,
}
