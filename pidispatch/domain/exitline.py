"""Read the last exit line of a container's output: telemetry from a box that may lie.

The line is one object, `{"event":"exit","jobId":...,"code":...,...}`, with a newline before it and after it.
Nothing here decides whether a run succeeded, is tried again, or what it cost; `policy_label` may pick a word
for an exit code that was seen from outside.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from pidispatch.domain import words
from pidispatch.domain.exitblocks import Context, Resources, Session, Tokens, Usage
from pidispatch.domain.exitfields import (
    count,
    read_context,
    read_resources,
    read_session,
    read_tokens,
    read_usage,
    safe_integer,
)
from pidispatch.domain.gluedjson import value_start

TAIL_LIMIT = 64 * 1024
MESSAGE_LIMIT = 2000
MAX_DEPTH = 64  # a line needs 4; far below where Python's decoder would run out of stack

POLICY_CODE = 2
POLICY_LABELS: frozenset[str] = frozenset(
    {
        words.PROVIDER_AUTH_REFUSED,
        words.COST_CAP,
        words.MODEL_NOT_ALLOWED,
        words.COST_CAP_UNENFORCEABLE,
        words.MODEL_POLICY_UNENFORCEABLE,
    }
)

# The runner writes `event` first, and JSON escapes the quotes inside strings: in a runner's own line these
# bytes stand only at its start.
_ANCHOR = '{"event":"'

_REASON = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_SIGNAL = re.compile(r"SIG[A-Z0-9+-]{1,16}")
_AUTH = re.compile(r"[0-9a-f]{64}")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitLine:
    """What one exit line said. None: it did not say, or said it against the rules.

    Every number is a safe integer (counts are not negative), every text can be stored as UTF-8 without NUL.
    `message` is untrusted prose of at most MESSAGE_LIMIT characters.
    """

    code: int | None
    reason: str | None = None
    message: str | None = None
    turns: int | None = None
    truncated: bool = False
    tokens: Tokens | None = None
    usage: Usage | None = None
    context: Context | None = None
    session: Session | None = None
    signal: str | None = None
    resources: Resources | None = None
    auth: str | None = None


def parse_exit(tail: bytes) -> ExitLine | None:
    """Return the last exit line within the last TAIL_LIMIT bytes, or None; never raises.

    A line that other output began without ending it is read from where the runner's own part starts. A line
    that was cut, at either end, is passed over.
    """
    for raw in reversed(tail[-TAIL_LIMIT:].split(b"\n")):
        event = _event(raw.decode("utf-8", "replace").strip(" \t\r"))
        if event is not None and event.get("event") == "exit":
            return _exit_line(event)
    return None


def policy_label(line: ExitLine | None, actual_code: int | None) -> str | None:
    """Return the line's reason for a policy stop, when the container really ended with that very code."""
    if line is None or line.code != POLICY_CODE or actual_code != POLICY_CODE:
        return None
    return line.reason if line.reason in POLICY_LABELS else None


def _event(line: str) -> dict[str, Any] | None:
    start = value_start(line, _ANCHOR, max_depth=MAX_DEPTH)
    if start is None or line[start] != "{":
        return None
    try:
        event = json.loads(line[start:], parse_int=_number)
    except (ValueError, RecursionError):  # a caller may have little stack left; telemetry never stops it
        return None
    return event if isinstance(event, dict) else None


def _number(digits: str) -> int | float:
    """Long integers become floats, as in JavaScript; Python would refuse those over 4,300 digits."""
    return int(digits) if len(digits) <= 20 else float(digits)


def _exit_line(event: dict[str, Any]) -> ExitLine:
    return ExitLine(
        code=safe_integer(event.get("code")),
        reason=_text(event.get("reason"), _REASON),
        message=_message(event.get("message")),
        turns=count(event.get("turns")),
        truncated=event.get("truncated") is True,
        tokens=read_tokens(event.get("tokens")),
        usage=read_usage(event.get("usage")),
        context=read_context(event.get("context")),
        session=read_session(event.get("session")),
        signal=_text(event.get("signal"), _SIGNAL),
        resources=read_resources(event.get("resources")),
        auth=_text(event.get("auth"), _AUTH),
    )


def _text(value: object, form: re.Pattern[str]) -> str | None:
    return value if isinstance(value, str) and form.fullmatch(value) else None


def _message(value: object) -> str | None:
    return _UNSTORABLE.sub("\ufffd", value[:MESSAGE_LIMIT]) if isinstance(value, str) else None
