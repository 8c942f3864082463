"""Say which header fields of a request and of its answer are passed on."""

from pidispatch.gateway.http1 import Fields, Head

# https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
_HOP_BY_HOP = {
    "connection", "keep-alive", "proxy-connection", "te", "trailer", "trailers", "transfer-encoding", "upgrade",
}  # fmt: skip
_NEVER_ASKED = _HOP_BY_HOP | {
    # Framing and encoding are ours to choose.
    "host", "content-length", "accept-encoding", "expect",
    # Who asks, and who pays, is not the box's to say.
    "authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie",
    "openai-organization", "openai-project", "x-http-method-override", "x-method-override",
}  # fmt: skip
_NEVER_ANSWERED = _HOP_BY_HOP | {"set-cookie", "proxy-authenticate"}


def asked(fields: Fields) -> Fields:
    """What of the box's fields the provider is sent."""
    return _without(fields, _NEVER_ASKED)


def answered(fields: Fields) -> Fields:
    """What of the provider's fields the box is sent."""
    return _without(fields, _NEVER_ANSWERED)


def beside(head: Head) -> str:
    """What beside the body may change how the provider reads it."""
    told = [f"{name}: {text}" for name, text in head.fields if "beta" in name or "version" in name]
    return "\n".join([head.query, *told])


def _without(fields: Fields, names: set[str]) -> Fields:
    """Without these, and without what a Connection field names."""
    named = {
        word.strip().lower() for name, value in fields if name == "connection" for word in value.split(",")
    }
    return tuple((name, value) for name, value in fields if name not in names and name not in named)
