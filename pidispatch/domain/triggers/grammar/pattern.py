"""Say what is wrong with the pattern of a schedule."""

import re

from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.schedules import timetable as schedule

_SPACE = re.compile(r"(?:[^\S\x1c-\x1f\x85]|\ufeff)+")


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with it, as the words after its name; None when it will be due some day."""
    fields = _SPACE.split(trim(pattern))
    count = len(fields)
    if count in {5, 6}:
        return schedule.pattern_problem(" ".join(fields))
    return (
        f"must have 5 fields, or 6 with seconds first; this has {count} (names such as @daily are not known)"
    )
