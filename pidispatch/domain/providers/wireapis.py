"""Name the wire APIs that the gateway speaks, in pi's words; `gateway.wire` says what each is."""

from collections.abc import Mapping

OPENAI = "openai-completions"
RESPONSES = "openai-responses"
ANTHROPIC = "anthropic-messages"
# What of its path ends a base URL: pi puts the rest behind it.
BASE_PATHS: Mapping[str, str] = {OPENAI: "/v1", RESPONSES: "/v1", ANTHROPIC: ""}
WIRE_APIS = tuple(BASE_PATHS)
