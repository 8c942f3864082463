"""Read `on` of a schedule."""

import re

from pidispatch.domain.limits.pausesfile import zone_name
from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.names import NAME_WANTED, is_name
from pidispatch.domain.schedules import timetable as schedule
from pidispatch.domain.triggers.grammar.draft import Draft
from pidispatch.domain.triggers.grammar.part import Part
from pidispatch.domain.triggers.trigger import Missed

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


ID_MAX = 200


def take_id(part: Part, draft: Draft) -> str:
    """The id in `part`, which no entry above has. It becomes part of names that are split at colons."""
    identity = part.filled("id")
    if ":" in identity:
        part.refuse(
            "id", f"must not hold a colon, which separates it from the time of a run; use {NAME_WANTED}"
        )
    if not is_name(identity) or len(identity) > ID_MAX:
        part.refuse("id", f"must be 1 to {ID_MAX} of {NAME_WANTED}")
    if draft.seen.ids.setdefault(identity, draft.index) != draft.index:
        part.refuse("id", f"is also that of triggers[{draft.seen.ids[identity]}]; each needs its own")
    return identity


def read_pattern(on: Part) -> str:
    pattern = on.filled("pattern")
    problem = pattern_problem(pattern)
    if problem is not None:
        on.refuse("pattern", problem)
    return pattern


def read_zone(on: Part) -> str | None:
    name = on.text("tz")
    if name is None:
        return None
    known = zone_name(name)
    if known is None:
        on.refuse("tz", "must be a zone of the IANA database, such as Europe/Berlin")
    return known


def read_missed(on: Part) -> Missed:
    node = on.node("missed")
    if node is None:
        return Missed.ONCE
    if not isinstance(node.value, str) or node.value not in set(Missed):
        on.refuse("missed", f"must be one of {', '.join(Missed)}")
    return Missed(node.value)
