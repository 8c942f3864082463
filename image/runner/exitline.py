"""Say how the run ended in one JSON line on standard output, written whole or not at all."""

from __future__ import annotations

import json
import os
from typing import Any

MESSAGE_CHARACTERS = 2000


def line(event: str, job_id: str, fields: dict[str, Any]) -> bytes:
    """Newline on both sides: a tool may have left half a line. Absent values (None) are left out."""
    kept = {name: value for name, value in fields.items() if value is not None}
    return (
        b"\n" + json.dumps({"event": event, "jobId": job_id, **kept}, separators=(",", ":")).encode() + b"\n"
    )


def cap_message(text: str, limit: int = MESSAGE_CHARACTERS) -> str:
    """Cut on a code point so that its JSON-escaped form has at most `limit` characters.

    The worker looks at the last 8 KiB of the output; an uncut message would push the line out of them.
    """
    if len(text) * 12 <= limit:
        return text
    used = 0
    for index, character in enumerate(text):
        used += len(json.dumps(character)) - 2
        if used > limit:
            return text[:index]
    return text


def write(raw: bytes, descriptor: int = 1) -> None:
    """All of it, synchronously; a closed pipe is nobody to tell."""
    view = memoryview(raw)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except OSError:
            return
