"""Say which header fields and query of a request, and which fields of its answer, are passed on.

A provider, or a proxy before it, may be told by any field to send the request elsewhere, to ask for it again or to bill
another way; so those alone pass that are known to do none of it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pidispatch.gateway.http.http1 import Fields, Head
from pidispatch.gateway.wire.api import WireApi

# https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "trailers", "transfer-encoding", "upgrade",
}  # fmt: skip
_NEVER_ANSWERED = _HOP_BY_HOP | {"set-cookie", "proxy-authenticate"}

_WORDS = re.compile(r"[\x20-\x7e]{1,256}")
_NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_ACCEPTED = re.compile(r"application/json|text/event-stream|\*/\*")
# Who asks, in the words of the two makers' own clients, and the names by which a provider finds its cache again.
_OF_ANY_API: Mapping[str, re.Pattern[str]] = {
    "accept": _ACCEPTED,
    "user-agent": _WORDS,
    **{
        f"x-stainless-{name}": _NAME
        for name in ("lang", "package-version", "os", "arch", "runtime", "runtime-version", "retry-count", "timeout")
    },
    **dict.fromkeys(("session-id", "session_id", "x-client-request-id", "x-session-id", "x-session-affinity"), _NAME),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Beside:
    """What of a request beside its body the provider is sent."""

    fields: Fields
    query: str
    meaning: str = ""  # what of it may change how the body is read


def beside(head: Head, api: WireApi, tools: Iterable[str] = ()) -> Beside:
    """`tools` are the words of what an operator lets providers run: their beta features may be asked for too.

    The body is JSON, whatever the box said of it.
    """
    query = "&".join(part for part in head.query.split("&") if part in api.queries)
    known = {**_OF_ANY_API, **api.fields}
    passed = [
        (name, text)
        for name, text in _without(head.fields, _HOP_BY_HOP)
        if name in known and known[name].fullmatch(text)
    ]
    for listed, keep in api.listed.items():
        asked = [kept for name, text in head.fields if name == listed and (kept := keep(text, tools))]
        passed += [(listed, ",".join(asked))] if asked else []
    meant = [f"{name}: {text}" for name, text in passed if name in api.fields or name in api.listed]
    return Beside((*passed, ("content-type", "application/json")), query, meaning="\n".join([query, *meant]))


def answered(fields: Fields) -> Fields:
    """What of the provider's fields the box is sent."""
    return _without(fields, _NEVER_ANSWERED)


def _without(fields: Fields, names: set[str]) -> Fields:
    """Without these, and without what a Connection field names."""
    named = {
        word.strip().lower() for name, value in fields if name == "connection" for word in value.split(",")
    }
    return tuple((name, value) for name, value in fields if name not in names and name not in named)
