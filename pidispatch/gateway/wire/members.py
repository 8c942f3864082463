"""Check the members of a request beside its conversation: each in the shape and with the values that are known."""

import re
from collections.abc import Mapping

from pidispatch.gateway.wire import shapes
from pidispatch.gateway.wire.api import Reader
from pidispatch.gateway.wire.references import MOST_SHOWN
from pidispatch.gateway.wire.scanning import NotARequest, Span, value

# Base64 has neither a colon nor a backslash.
_SCHEME = re.compile(rb"[^:\\]{0,32}[:\\]")


def check_file(reader: Reader, named: Mapping[str, Span], what: str) -> None:
    """A file in a request: kept by the provider, lying at an address, or whole in its place."""
    reader.found.unbound(what)
    if not reader.is_null(named.get("file_id")):
        reader.found.word("files", f"{what} that the provider keeps")
    if not reader.is_null(named.get("file_url")):
        reader.address(named.get("file_url"), what)
    check_data(reader, named.get("file_data"), what)


def check_data(reader: Reader, span: Span | None, what: str) -> None:
    """What should be data may be an address for some servers."""
    reader.found.unbound(what)
    start = b"" if span is None else reader.body[span[0] + 1 : min(span[0] + 65, span[1])]
    if _SCHEME.match(start) and not start.lower().startswith(b"data:"):
        reader.address(span, what)


def check_annotations(reader: Reader, span: Span | None) -> None:
    """Some stand for files that were read before."""
    if not reader.is_nothing(span) and span is not None:
        reader.unknown("annotations", "annotations", span)


def size(span: Span) -> int:
    return span[1] - span[0]


_MOST_SETTING = 4_096
# What has these members is to be run, kept or fetched by the provider.
_WORDS = {"container": "container", "mcp_servers": "mcp", "web_search_options": "web_search"}
_WITH_SCHEMAS = frozenset({"response_format", "output_format", "output_config", "text"})
_READ_ELSEWHERE = frozenset({"tools", "fallbacks"})


def check_members(reader: Reader, spans: Mapping[str, Span]) -> None:
    """Keep what of the known members leads elsewhere, or is not as the API has it."""
    read_elsewhere = _READ_ELSEWHERE.union(reader.api.checks, [reader.api.conversation])
    for name, at in spans.items():
        if not (name in read_elsewhere or reader.is_null(at)):
            try:
                _check_member(reader, name, at)
            except NotARequest as error:
                reader.found.refuse(f"{name} cannot be read: {error}")
    try:
        reader.tools(spans.get("tools"))
    except NotARequest as error:
        reader.found.refuse(f"tools, which cannot be read: {error}")
    for name, check in reader.api.checks.items():
        try:
            if name in spans:
                check(reader, spans[name])
        except NotARequest as error:
            reader.found.refuse(f"{name} cannot be read: {error}")


def _check_member(reader: Reader, name: str, at: Span) -> None:
    allowed = reader.api.only.get(name)
    if allowed is not None:
        # A number that equals false is no false.
        said = value(reader.body, at, _MOST_SETTING)
        if not any(type(said) is type(each) and said == each for each in allowed):
            reader.found.unbound(name)
            if name in _WORDS:
                reader.unknown(_WORDS[name], name, at)
    elif not reader.is_plain(at):
        check_setting(reader, name, at)


def check_setting(reader: Reader, name: str, at: Span) -> None:
    """An object or a list as the value of a member."""
    if reader.body[at[0] : at[0] + 1] == b"[":
        if name in shapes.LISTS:
            reader.each(at, reader.api.entries.get(name, _plain), name)
        else:
            reader.unknown(name, f"{name} as it is written", at)
    elif name in shapes.ANY_NAMES:
        for inner, span in reader.members(at).items():
            if not reader.is_plain(span):
                reader.unknown(name, f"{inner[:MOST_SHOWN]} in {name}", span)
    elif name in shapes.SETTINGS:
        named = reader.shape(at, shapes.SETTINGS[name], name)
        if name == "tool_choice":
            reader.is_known(reader.kind(named), shapes.TOOL_CHOICES, at, "a choice")
        if name in _WITH_SCHEMAS:
            reader.schema(at)
    else:
        reader.unknown(name, f"{name} as it is written", at)


def _plain(reader: Reader, span: Span) -> int:
    if not reader.is_plain(span):
        reader.found.refuse("a list that must hold plain values holds others")
    return 0
