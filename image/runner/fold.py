"""Add up pi's events, purely: one value in, one event, the next value out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

COUNTED_STOPS = frozenset({"stop", "toolUse", "length"})
LIMIT_ENTRY = "pidispatch.limit"


class Tokens(NamedTuple):
    """`total` is what is billed: it includes cache reads and writes. `cost` is dollars, as pi reckons."""

    input: int = 0
    output: int = 0
    total: int = 0
    cost: float = 0.0
    calls: int = 0


class Folded(NamedTuple):
    """What was seen so far; `last_stop` and `last_error` are of the last assistant message."""

    turns: int = 0
    tokens: Tokens = Tokens()
    last_stop: str | None = None
    last_error: str | None = None
    retries: int = 0
    aborted: bool = False
    limit: str | None = None  # what guard.mjs stopped for: max_turns or max_tokens
    prompt_error: str | None = None
    handled: bool = False  # the prompt started no run
    context: tuple[int, int] | None = None  # tokens, window
    tools: tuple[int, int] = (0, 0)  # that have ended, that failed


START = Folded()


def step(so_far: Folded, event: dict[str, Any]) -> Folded:
    """Unknown events, and known ones of another shape, change nothing."""
    kind = event.get("type")
    change = _CHANGES.get(kind) if isinstance(kind, str) else None
    return change(so_far, event) if change else so_far


def _message(so_far: Folded, event: dict[str, Any]) -> Folded:
    message = _object(event.get("message"))
    if message.get("role") != "assistant":
        return so_far
    stop, error = message.get("stopReason"), message.get("errorMessage")
    usage = _object(message.get("usage"))
    return so_far._replace(
        turns=so_far.turns + (isinstance(stop, str) and stop in COUNTED_STOPS),
        tokens=_plus(so_far.tokens, usage) if usage else so_far.tokens,
        last_stop=stop if isinstance(stop, str) else None,
        last_error=error if isinstance(error, str) else None,
    )


def _settled(so_far: Folded, event: dict[str, Any]) -> Folded:
    return so_far._replace(aborted=event.get("aborted") is not False)


def _retry(so_far: Folded, _event: dict[str, Any]) -> Folded:
    return so_far._replace(retries=so_far.retries + 1)


def _compaction(so_far: Folded, event: dict[str, Any]) -> Folded:
    usage = _object(_object(event.get("result")).get("usage"))
    return so_far._replace(tokens=_plus(so_far.tokens, usage)) if usage else so_far


def _entry(so_far: Folded, event: dict[str, Any]) -> Folded:
    entry = _object(event.get("entry"))
    reason = _object(entry.get("data")).get("reason")
    if entry.get("customType") != LIMIT_ENTRY or reason not in ("max_turns", "max_tokens"):
        return so_far
    return so_far._replace(limit=so_far.limit or reason)


def _tool(so_far: Folded, event: dict[str, Any]) -> Folded:
    ended, failed = so_far.tools
    return so_far._replace(tools=(ended + 1, failed + (event.get("isError") is not False)))


def _response(so_far: Folded, event: dict[str, Any]) -> Folded:
    command, data = event.get("command"), _object(event.get("data"))
    if command == "prompt":
        if event.get("success") is not True:
            return so_far._replace(prompt_error=str(event.get("error") or "pi refused the prompt"))
        return so_far._replace(handled=data.get("disposition") == "handled")
    if command == "get_session_stats":
        usage = _object(data.get("contextUsage"))
        tokens, window = _count(usage.get("tokens")), _count(usage.get("contextWindow"))
        if tokens is not None and window is not None and window > 0:
            return so_far._replace(context=(tokens, window))
    return so_far


def _plus(tokens: Tokens, usage: dict[str, Any]) -> Tokens:
    cost = _object(usage.get("cost")).get("total")
    return Tokens(
        tokens.input + (_count(usage.get("input")) or 0),
        tokens.output + (_count(usage.get("output")) or 0),
        tokens.total + (_count(usage.get("totalTokens")) or 0),
        tokens.cost + (float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e9 else 0.0),
        tokens.calls + 1,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_CHANGES: dict[str, Callable[[Folded, dict[str, Any]], Folded]] = {
    "message_end": _message,
    "agent_settled": _settled,
    "auto_retry_start": _retry,
    "compaction_end": _compaction,
    "entry_appended": _entry,
    "tool_execution_end": _tool,
    "response": _response,
}
