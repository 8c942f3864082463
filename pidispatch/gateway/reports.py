"""Read a runner's report: bounded, closed fields, safe to keep in any database."""

import re
from typing import Any

from pidispatch.domain.words import Use, words_of
from pidispatch.gateway.metering import load_object

MOST_REPORT = 64 * 1024
MOST_MESSAGE = 2000
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SAFE = 2**53 - 1


def read_report(body: bytes) -> dict[str, Any] | None:
    """The report's known fields, or None for a body that is no report. Never raises."""
    raw = load_object(body)
    if raw is None or raw.get("v") != 1 or _count(raw.get("attempt")) is None:
        return None
    return {
        "v": 1,
        "attempt": raw["attempt"],
        "code": _count(raw.get("code")),
        "reason": _word(raw.get("reason")),
        "turns": _count(raw.get("turns")),
        "truncated": raw.get("truncated") is True,
        "message": _text(raw.get("message")),
        "tokens": _tokens(raw.get("tokens")),
        "context": _counts(raw.get("context"), ("tokens", "window")),
        "session": _session(raw.get("session")),
        "notes": _notes(raw.get("notes")),
        "pi": _word(raw.get("pi")),
    }


def _count(value: Any) -> int | None:
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _SAFE
    return value if sound else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _text(value: Any) -> str | None:
    return _UNSTORABLE.sub("\ufffd", value[:MOST_MESSAGE]) if isinstance(value, str) else None


def _counts(value: Any, names: tuple[str, ...]) -> dict[str, int | None] | None:
    return {name: _count(value.get(name)) for name in names} if isinstance(value, dict) else None


def _tokens(value: Any) -> dict[str, int | float] | None:
    """Numbers and flags by name; telemetry, so names are only bounded."""
    if not isinstance(value, dict):
        return None
    few = list(value.items())[:32]
    return {name: count for name, count in few if _WORD.fullmatch(name) and _is_number(count)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and 0 <= value <= _SAFE


def _notes(value: Any) -> list[str]:
    """Words that a run may be marked with; any other is left out."""
    told = value if isinstance(value, list) else []
    return [word for word in words_of(Use.REMARK) if word in told[:32]]


def _session(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    return {"resumed": value.get("resumed") is True, "reason": _word(value.get("reason"))}
