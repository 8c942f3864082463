"""Say what is wrong with the pattern of a schedule, as far as its shape tells."""

import re

from pidispatch.domain.files.scopes import trim

_SPACE = re.compile(r"(?:[^\S\x1c-\x1f\x85]|\ufeff)+")


def pattern_problem(pattern: str) -> str | None:
    """Only the fields are counted; what they mean is for whoever plans by them."""
    count = len(_SPACE.split(trim(pattern)))
    if count in {5, 6}:
        return None
    return (
        f"must have 5 fields, or 6 with seconds first; this has {count} (names such as @daily are not known)"
    )
