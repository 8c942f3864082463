"""Rebuild the blocks of an exit line from their closed field sets; one broken rule and a block is None.

Unknown fields are dropped. `None` means that the line did not say; it is never the same as zero.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from pidispatch.domain.runs.exitblocks import (
    SESSION_REASONS,
    Context,
    Resources,
    Session,
    ToldTokens,
    ToldUsage,
    UsageRow,
)

SAFE_INTEGER = 2**53 - 1
NAMED_ROWS = 8
FOLD_ROW = ("other", "other")

_NAME = re.compile(r"[A-Za-z0-9._:/@+~-]{1,128}")
_VERSION = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}")

Block = TypeVar("Block")


class _BrokenRuleError(Exception):
    """A field of the block being read is not what it has to be; never leaves this module."""


def safe_integer(value: object) -> int | None:
    """Return an integer that a JavaScript number holds exactly (3.0 is one, true is none), else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if abs(value) > SAFE_INTEGER or value != value // 1:
        return None
    return int(value)


def count(value: object) -> int | None:
    """Return a safe integer that is not negative, else None."""
    number = safe_integer(value)
    return number if number is not None and number >= 0 else None


def _whole(read: Callable[[dict[str, Any]], Block]) -> Callable[[object], Block | None]:
    """Give None for what is no object, and for an object in which `read` meets a broken rule."""

    @wraps(read)
    def read_or_none(value: object) -> Block | None:
        if not isinstance(value, dict):
            return None
        try:
            return read(value)
        except _BrokenRuleError:
            return None

    return read_or_none


@_whole
def read_tokens(block: dict[str, Any]) -> ToldTokens:
    """Null is absent, as an absent figure is None here anyway; only `total` has to be there."""
    _count(block.get("total"))
    rules = {"cost": _cost, "metered": _flag}
    return ToldTokens(**_figures(ToldTokens, block, rules))


@_whole
def read_usage(block: dict[str, Any]) -> ToldUsage:
    version, pi_ai, truncated, rows = (block.get(key) for key in ("v", "piAi", "truncated", "models"))
    _require(pi_ai is None or (isinstance(pi_ai, str) and _VERSION.fullmatch(pi_ai)))
    _require(isinstance(rows, list) and 1 <= len(rows) <= NAMED_ROWS + 1)
    _require(_count(version) >= 1)
    models = tuple(_usage_row(row) for row in rows or ())
    folded = sum((row.provider, row.model) == FOLD_ROW for row in models)
    _require(folded <= 1 and len(models) - folded <= NAMED_ROWS)
    return ToldUsage(_count(version), pi_ai, None if truncated is None else _count(truncated), models)


@_whole
def read_context(block: dict[str, Any]) -> Context:
    """A window of zero is no denominator."""
    tokens, window = _count(block.get("tokens")), _count(block.get("window"))
    _require(window > 0)
    return Context(tokens, window)


@_whole
def read_session(block: dict[str, Any]) -> Session:
    reason = block.get("reason")
    _require(reason is None or (isinstance(reason, str) and reason in SESSION_REASONS))
    return Session(_flag(block.get("resumed")), reason)


@_whole
def read_resources(block: dict[str, Any]) -> Resources:
    """Null is a file that could not be read; nothing readable at all is no block."""
    figures = _figures(Resources, block, {})
    _require(any(figure is not None for figure in figures.values()))
    return Resources(**figures)


def _usage_row(row: object) -> UsageRow:
    if not isinstance(row, dict):
        raise _BrokenRuleError
    figures: dict[str, Any] = {name: _model_name(row.get(name)) for name in ("provider", "model")}
    for name in (field.name for field in fields(UsageRow) if field.name not in figures):
        if (wire := _wire_name(name)) in row:
            figures[name] = _cost(row[wire]) if name == "cost" else _count(row[wire])
    return UsageRow(**figures)


def _figures(
    kind: type, block: dict[str, Any], rules: Mapping[str, Callable[[object], Any]]
) -> dict[str, Any]:
    given = {field.name: block.get(_wire_name(field.name)) for field in fields(kind)}
    return {name: None if value is None else rules.get(name, _count)(value) for name, value in given.items()}


def _wire_name(name: str) -> str:
    """Spell a field as the line does: `cache_write_1h` is `cacheWrite1h`."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _require(rule: object) -> None:
    if not rule:
        raise _BrokenRuleError


def _count(value: object) -> int:
    if (number := count(value)) is None:
        raise _BrokenRuleError
    return number


def _cost(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _BrokenRuleError
    _require(0 <= value <= sys.float_info.max)
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _BrokenRuleError
    return value


def _model_name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise _BrokenRuleError
    return value.lower()
