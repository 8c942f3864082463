"""Write the two files pi reads in a box: where its provider is, and settings that cost nothing by surprise."""

import json
from typing import Any

from pidispatch.domain.box.sandbox import FORWARDER_PORT
from pidispatch.domain.providers.wireapis import BASE_PATHS

PLACEHOLDER_KEY = "no-key-in-this-box"

# For a model nobody has figures of. The gateway meters; these only tell pi when to compact and where to stop.
_CONTEXT_WINDOW = 128_000
_MAX_TOKENS = 8_192
# How long a call may be held and a provider may take is the gateway's to say, and the run's deadline ends both: pi's own
# 300 s would end a held call, lose its place in line and ask again. This is longer than any run.
_IDLE_MILLISECONDS = 90_000_000


def agent_files(
    provider: str,
    model: str,
    api: str,
    *,
    known_to_pi: bool,
    context_window: int | None = None,
    max_tokens: int | None = None,
    reasoning: bool | None = None,
) -> dict[str, bytes]:
    """`models.json` and `settings.json`. A provider pi knows is only redirected: it keeps pi's own figures of a model
    but for those that are given.
    """
    entry: dict[str, Any] = {
        "baseUrl": f"http://127.0.0.1:{FORWARDER_PORT}{BASE_PATHS[api]}",
        "apiKey": PLACEHOLDER_KEY,
    }
    given = {"contextWindow": context_window, "maxTokens": max_tokens, "reasoning": reasoning}
    figures: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not known_to_pi:
        window = context_window or _CONTEXT_WINDOW
        defaults = {"contextWindow": window, "maxTokens": min(_MAX_TOKENS, window)}
        entry |= {"api": api, "models": [{"id": model, **defaults, **figures}]}
    elif figures:
        entry["modelOverrides"] = {model: figures}
    settings = {
        "retry": {"enabled": True, "maxRetries": 3, "baseDelayMs": 2000},
        "httpIdleTimeoutMs": _IDLE_MILLISECONDS,
        "cacheWarming": "off",  # the default sends paid requests while idle
    }
    return {"models.json": _bytes({"providers": {provider: entry}}), "settings.json": _bytes(settings)}


def _bytes(value: object) -> bytes:
    return json.dumps(value, indent=2, sort_keys=True).encode() + b"\n"
