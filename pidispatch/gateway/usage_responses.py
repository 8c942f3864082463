"""Read what a model call used from the JSON of the OpenAI Responses API."""

from typing import Any

from pidispatch.gateway.loose import as_count, as_dict, as_dicts, first_count
from pidispatch.gateway.usage import Tally, text_size

# What the client is to do before the model goes on.
_CALLS = (
    *("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"),
    *("computer_call", "mcp_approval_request"),
)
_ENDED = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_ITEM = ("response.output_item.added", "response.output_item.done")


def read_responses(tally: Tally, message: dict[str, Any]) -> None:
    """One event of a response stream, or a whole response (platform.openai.com/docs/api-reference/responses)."""
    tally.understood = True
    kind = message.get("type")
    if kind == "error":
        tally.failed = True
    elif kind in _ENDED:
        _whole(tally, as_dict(message.get("response")))
    elif kind in _ITEM:
        _item(tally, as_dict(message.get("item")))
    elif isinstance(kind, str) and kind.endswith(".delta"):
        size = text_size(message.get("delta"))
        tally.text += size
        tally.pieces += size > 0
    elif kind is None:
        _whole(tally, message)


def _item(tally: Tally, item: dict[str, Any]) -> None:
    tally.calls = tally.calls or item.get("type") in _CALLS
    # Reasoning that is not shown is paid for all the same; this is all that can be seen of it before the end.
    tally.text += text_size(item.get("encrypted_content"))


def _whole(tally: Tally, response: dict[str, Any]) -> None:
    output = as_dicts(response.get("output"))
    tally.calls = tally.calls or any(item.get("type") in _CALLS for item in output)
    tally.text = max(tally.text, text_size(output))
    tally.failed = tally.failed or bool(response.get("error"))
    tally.stop = _stop(tally, response)
    usage = as_dict(response.get("usage"))
    if as_count(usage.get("input_tokens")) is not None:
        _usage(tally, usage)
    tally.reported = tally.tokens_in is not None and tally.stop is not None


def _stop(tally: Tally, response: dict[str, Any]) -> str | None:
    """None for a response that has not ended: `background` ones are answered before they begin."""
    status = response.get("status")
    if status == "completed":
        return "tool_use" if tally.calls else "stop"
    if status in ("queued", "in_progress", None):
        return None
    reason = as_dict(response.get("incomplete_details")).get("reason")
    return "length" if status == "incomplete" and reason == "max_output_tokens" else "error"


def _usage(tally: Tally, usage: dict[str, Any]) -> None:
    asked = as_dict(usage.get("input_tokens_details"))
    made = as_dict(usage.get("output_tokens_details"))
    prompt = first_count(usage.get("input_tokens"))
    tally.cache_read = min(first_count(asked.get("cached_tokens")), prompt)
    tally.cache_write = min(first_count(asked.get("cache_write_tokens")), prompt - tally.cache_read)
    tally.tokens_in = prompt - tally.cache_read - tally.cache_write
    # Where reasoning is left out of output_tokens, the total still holds it.
    total = first_count(usage.get("total_tokens"))
    tally.tokens_out = max(first_count(usage.get("output_tokens")), total - prompt)
    tally.reasoning = first_count(made.get("reasoning_tokens"))
