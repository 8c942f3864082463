"""Tell people who read the box's log what pi does, in short lines no parser takes for ours."""

from __future__ import annotations

import json
from typing import Any

_SHOWN = 2000
_ARGUMENTS = 200


def narrate(event: dict[str, Any]) -> str:
    """Lines for people, each begun with `pi| `, or nothing."""
    kind = event.get("type")
    if kind == "message_end":
        message = event.get("message")
        if isinstance(message, dict) and message.get("role") == "assistant":
            return _lines(_said(message))
    if kind == "tool_execution_start":
        arguments = json.dumps(event.get("args"), ensure_ascii=True)
        return _lines(f"[{event.get('toolName')}] {_cut(arguments, _ARGUMENTS)}")
    if kind == "tool_execution_end" and event.get("isError") is True:
        return _lines(f"[{event.get('toolName')}] failed")
    if kind == "compaction_start":
        return _lines("[compaction]")
    return ""


def _said(message: dict[str, Any]) -> str:
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [
        part["text"] for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    if message.get("stopReason") == "error":
        texts.append(f"[error] {message.get('errorMessage')}")
    return _cut("\n".join(texts), _SHOWN)


def _lines(text: str) -> str:
    """Control characters would reach a terminal; only printable text passes."""
    clean = ("".join(c if c.isprintable() else " " for c in one) for one in text.split("\n"))
    return "".join(f"pi| {one}\n" for one in clean if one.strip())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."
