"""Know the beta features of Anthropic's API that only change how a request's own bytes are read and answered."""

from collections.abc import Iterable

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


def is_harmless(beta: str) -> bool:
    return beta in HARMLESS


def passed_on(text: str, listed: Iterable[str]) -> str:
    """Of the betas in a header field those that may be asked for: the harmless, and those of tools an operator listed.

    `web_fetch` is a word for `web-fetch-2025-09-10`, and `files` for `files-api-2025-04-14`.
    """
    prefixes = tuple(f"{word.replace('_', '-')}-" for word in listed)
    betas = dict.fromkeys(beta.strip() for beta in text.split(","))
    return ",".join(
        beta
        for beta in betas
        if is_harmless(beta) or beta in listed or (prefixes and beta.startswith(prefixes))
    )
