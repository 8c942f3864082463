"""What the runner tells of a run's end: the fields that report and exit line share."""

from __future__ import annotations

from typing import Any

from .decide import Verdict
from .fold import Folded


def notes(folded: Folded, *, skill_missing: bool) -> list[str]:
    """Where the run may have fallen short, in pidispatch's words."""
    ended, failed = folded.tools
    found = {"tools-failed": 0 < ended == failed, "skill-missing": skill_missing}
    return [word for word, holds in found.items() if holds]


def summary(
    folded: Folded, verdict: Verdict, message: str | None, session: dict[str, Any] | None
) -> dict[str, Any]:
    """What report and exit line have in common."""
    tokens = folded.tokens
    return {
        "code": verdict.code,
        "reason": verdict.reason,
        "turns": folded.turns,
        "truncated": verdict.truncated,
        "message": message,
        "tokens": {
            "input": tokens.input,
            "output": tokens.output,
            "total": tokens.total,
            "cost": round(tokens.cost, 9),
            "metered": False,
            "calls": tokens.calls,
        },
        "context": {"tokens": folded.context[0], "window": folded.context[1]} if folded.context else None,
        "session": session,
    }
