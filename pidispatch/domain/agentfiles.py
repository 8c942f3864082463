"""Write the two files pi reads in a box: where its provider is, and settings that cost nothing by surprise."""

import json
from typing import Any

from pidispatch.domain.sandbox import FORWARDER_PORT

PLACEHOLDER_KEY = "no-key-in-this-box"
ANTHROPIC = "anthropic-messages"

# For a model pi has no figures of. The gateway meters; these only tell pi when to compact and where to stop.
_CONTEXT_WINDOW = 128_000
# pi calls these with another wire API than ours unless their model is listed (provider-level `api` is not enough).
_LISTED_ALWAYS = frozenset({"openai"})
_MAX_TOKENS = 8_192
# The gateway may hold a call for 60 s (database away) and 240 s (provider busy) before it sends it, and waits up to
# 300 s for the provider's next bytes. pi's own 300 s would end a held call, lose its place in line and ask again.
_IDLE_MILLISECONDS = 630_000


def agent_files(provider: str, model: str, api: str, known_to_pi: bool) -> dict[str, bytes]:  # noqa: FBT001
    """`models.json` and `settings.json`. A provider pi knows is only redirected: it keeps pi's own windows."""
    base_url = f"http://127.0.0.1:{FORWARDER_PORT}"
    entry: dict[str, Any] = {
        # pi adds /v1 itself for Anthropic's API.
        "baseUrl": base_url if api == ANTHROPIC else f"{base_url}/v1",
        "apiKey": PLACEHOLDER_KEY,
    }
    if not known_to_pi or provider in _LISTED_ALWAYS:
        figures = {"contextWindow": _CONTEXT_WINDOW, "maxTokens": _MAX_TOKENS}
        entry |= {"api": api, "models": [{"id": model, **figures}]}
    settings = {
        "retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 2000},
        "httpIdleTimeoutMs": _IDLE_MILLISECONDS,
        "cacheWarming": "off",  # the default sends paid requests while idle
    }
    return {"models.json": _bytes({"providers": {provider: entry}}), "settings.json": _bytes(settings)}


def _bytes(value: object) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
