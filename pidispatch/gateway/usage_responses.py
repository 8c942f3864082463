"""Read what a model call used from the JSON of the OpenAI Responses API."""

from typing import Any

from pidispatch.gateway.loose import as_count, as_dict, as_dicts, first_count
from pidispatch.gateway.usage import Tally, split_usage, text_size

# What the client is to do before the model goes on.
_CALLS = (
    *("function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"),
    *("computer_call", "mcp_approval_request"),
)
_ENDED = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_ITEM = ("response.output_item.added", "response.output_item.done")


def read_responses(tally: Tally, message: dict[str, Any]) -> None:
    """One event of a response stream, or a whole response (platform.openai.com/docs/api-reference/responses)."""
    kind = message.get("type")
    if kind == "error":
        tally.failed = True
    elif kind in _ENDED:
        _whole(tally, as_dict(message.get("response")))
    elif kind in _ITEM:
        _item(tally, as_dict(message.get("item")))
    elif isinstance(kind, str) and kind.endswith(".delta"):
        tally.write(text_size(message.get("delta")))
    elif kind is None:
        _whole(tally, message)
    if kind is not None:
        _tell(tally, as_dict(message.get("usage")))


def _item(tally: Tally, item: dict[str, Any]) -> None:
    tally.calls = tally.calls or item.get("type") in _CALLS
    # Reasoning that is not shown is paid for all the same; this is all that can be seen of it before the end.
    tally.write(text_size(item.get("encrypted_content")))


def _whole(tally: Tally, response: dict[str, Any]) -> None:
    output = as_dicts(response.get("output"))
    tally.calls = tally.calls or any(item.get("type") in _CALLS for item in output)
    if (size := text_size(output)) > tally.text:
        tally.write(size - tally.text)
    tally.failed = tally.failed or bool(response.get("error"))
    if (stop := _stop(tally, response)) is not None:
        tally.finish(stop)
    _tell(tally, as_dict(response.get("usage")))


def _stop(tally: Tally, response: dict[str, Any]) -> str | None:
    """None for a response that has not ended: `background` ones are answered before they begin."""
    status = response.get("status")
    if status == "completed":
        return "tool_use" if tally.calls else "stop"
    if status in ("queued", "in_progress", None):
        return None
    reason = as_dict(response.get("incomplete_details")).get("reason")
    return "length" if status == "incomplete" and reason == "max_output_tokens" else "error"


def _tell(tally: Tally, usage: dict[str, Any]) -> None:
    if as_count(usage.get("input_tokens")) is None:
        return
    asked = as_dict(usage.get("input_tokens_details"))
    made = as_dict(usage.get("output_tokens_details"))
    tally.tell(
        split_usage(
            prompt=first_count(usage.get("input_tokens")),
            read=first_count(asked.get("cached_tokens")),
            written=first_count(asked.get("cache_write_tokens")),
            out=as_count(usage.get("output_tokens")),
            total=as_count(usage.get("total_tokens")),
            reasoning=first_count(made.get("reasoning_tokens")),
        )
    )
