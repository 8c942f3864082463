"""Read what requests of several wire APIs have alike."""

import re
from collections.abc import Mapping

from pidispatch.gateway.wire.api import Reader
from pidispatch.gateway.wire.scanning import Span

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
