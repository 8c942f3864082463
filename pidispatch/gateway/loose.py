"""Look into JSON that somebody else wrote: each look answers for any value."""

import math
from typing import Any


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_count(value: Any) -> int | None:
    """A token count, or None for what cannot be one (over 2^31 is no count of tokens in one call).

    Some servers write counts as floats; a part of a token is a whole one.
    """
    if isinstance(value, float) and math.isfinite(value):
        value = math.ceil(value)
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
    return value if sound else None


def first_count(*values: Any) -> int:
    return next((count for count in map(as_count, values) if count is not None), 0)
