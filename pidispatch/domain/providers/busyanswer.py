"""Read from a provider's answer whether it says that too much is asked of it, and for how long."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pidispatch.domain.providers.pressure import Busy

TOO_MANY = 429
UNAVAILABLE = 503
OVERLOADED = 529  # https://docs.anthropic.com/en/api/errors
STATUSES = frozenset({TOO_MANY, UNAVAILABLE, OVERLOADED})

# https://platform.openai.com/docs/guides/error-codes: the account has run dry, and waiting changes nothing.
_ENDS = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_TOO_LARGE = "Request too large"  # for the account's limit a minute, however long one waits

# A limit of a whole subscription at Anthropic; "Your account … request reached max concurrency" (Moonshot), "for your
# API key" and the like elsewhere.
_UNIFIED = "anthropic-ratelimit-unified"
_ACCOUNT = re.compile(r"\b(?:accounts?|api[ -]keys?|all models|workspace|subscription)\b")
_OF_ACCOUNT = frozenset({"account_rate_limit_exceeded", "account_rate_limited", "key_rate_limit_exceeded"})

_LIMITS = ("requests", "tokens", "input-tokens", "output-tokens")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,9})?")
# OpenAI and Groq write 1s, 6m0s, 120ms, 2m59.56s.
_LENGTH = re.compile(
    r"(?:([0-9]{1,4})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,9}(?:\.[0-9]{0,9})?)s)?(?:([0-9]{1,9}(?:\.[0-9]{0,9})?)ms)?"
)
_UNITS = (86400.0, 3600.0, 60.0, 1.0, 0.001)
_UNIX_SECONDS, _UNIX_MILLISECONDS = 1e8, 1e11  # greater numbers are a moment, smaller ones a length


def busy(
    status: int, fields: Mapping[str, str], body: bytes, now: datetime, *, model: str = ""
) -> Busy | None:
    """What a refusal says; None for an answer that is to be passed on. Never raises.

    `fields` have lower-case names; `now` is this machine's clock, used where the answer tells no time of its own.
    `model` was asked for.
    """
    if status not in STATUSES:
        return None
    error = _error(body)
    if status == TOO_MANY and not waiting_helps(error):
        return None
    pause = asked_pause(fields, now)
    if status == UNAVAILABLE and pause is None:
        return None
    return Busy(pause, account=_is_of_account(fields, error, model))


def asked_pause(fields: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the provider asks to wait, None when it says nothing that can be used."""
    now = _date(fields.get("date", "")) or now
    milliseconds = _number(fields.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    told = fields.get("retry-after", "").strip()
    seconds = _number(told)
    if seconds is None and (at := _date(told)) is not None:
        seconds = _until(at, now)
    if seconds is not None:
        return seconds
    return max(_resets(fields, now), default=None)


def _resets(fields: Mapping[str, str], now: datetime) -> Iterator[float]:
    """When each limit that is used up is full again (docs.anthropic.com/en/api/rate-limits, OpenAI's rate-limit guide)."""
    if fields.get(f"{_UNIFIED}-status", "").strip() == "rejected":
        yield from _moment(fields.get(f"{_UNIFIED}-reset", ""), now)
    for limit in _LIMITS:
        if _used_up(fields, f"anthropic-ratelimit-{limit}-remaining"):
            yield from _moment(fields.get(f"anthropic-ratelimit-{limit}-reset", ""), now)
        if _used_up(fields, f"x-ratelimit-remaining-{limit}"):
            yield from _moment(fields.get(f"x-ratelimit-reset-{limit}", ""), now)
    if _used_up(fields, "x-ratelimit-remaining"):
        yield from _moment(fields.get("x-ratelimit-reset", ""), now)


def _used_up(fields: Mapping[str, str], name: str) -> bool:
    return _number(fields.get(name, "")) == 0


def _moment(text: str, now: datetime) -> Iterator[float]:
    """Seconds until a reset: a length, a date, a Unix time in seconds or milliseconds, or plain seconds."""
    text = text.strip()
    number = _number(text)
    if number is not None:
        unix = number / 1000 if number > _UNIX_MILLISECONDS else number
        yield max(unix - now.timestamp(), 0.0) if unix > _UNIX_SECONDS else unix
        return
    length = _length(text)
    if length is not None:
        yield length
        return
    date = _iso(text)
    if date is not None:
        yield _until(date, now)


def _number(text: str) -> float | None:
    match = _NUMBER.fullmatch(text.strip())
    return float(match[0]) if match else None


def _length(text: str) -> float | None:
    match = _LENGTH.fullmatch(text) if text else None
    if match is None:
        return None
    return math.fsum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)


def _date(text: str) -> datetime | None:
    """An HTTP date."""
    if not 8 <= len(text) <= 64:
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return _aware(date)


def _iso(text: str) -> datetime | None:
    if len(text) > 64:
        return None
    try:
        return _aware(datetime.fromisoformat(text))
    except ValueError:
        return None


def _aware(date: datetime) -> datetime:
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def _until(at: datetime, now: datetime) -> float:
    return max((at - now).total_seconds(), 0.0)


def waiting_helps(error: Mapping[str, Any]) -> bool:
    """False for an error that comes again however long one waits."""
    if any(error.get(name) in _ENDS for name in ("code", "type") if isinstance(error.get(name), str)):
        return False
    message = error.get("message")
    return not (isinstance(message, str) and message.startswith(_TOO_LARGE))


def _is_of_account(fields: Mapping[str, str], error: Mapping[str, str], model: str) -> bool:
    """Whether all that is asked with this key is refused. Where the answer names the model it speaks of that alone.

    An organization has limits for each model (Anthropic, OpenAI, Groq): its being named says nothing.
    """
    if fields.get(f"{_UNIFIED}-status", "").strip() == "rejected":
        return True
    message = error.get("message", "").lower()
    if model and model.lower() in message:
        return False
    return _ACCOUNT.search(message) is not None or bool({error.get("code"), error.get("type")} & _OF_ACCOUNT)


def _error(body: bytes) -> dict[str, Any]:
    """The words of the error that a body tells of; values that are no words are left out."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    error = said.get("error") if isinstance(said, dict) else None
    return (
        {key: value for key, value in error.items() if isinstance(value, str)}
        if isinstance(error, dict)
        else {}
    )
