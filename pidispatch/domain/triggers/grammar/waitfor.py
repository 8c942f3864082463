"""Read `run.waitFor`: what must be true before a run may start."""

import re
from datetime import UTC, datetime, timedelta, timezone

from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.names import NAME_WANTED, is_name
from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.text.jsonfile import Node, shown
from pidispatch.domain.triggers.grammar.draft import Draft
from pidispatch.domain.triggers.grammar.nearmiss import WAIT, sweep
from pidispatch.domain.triggers.grammar.part import Part

CONDITIONS_MAX = 4
_INSTANT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9])"
    r"(?::([0-5][0-9])(?:\.([0-9]+))?)?(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_INSTANT_WANTED = (
    "must be an instant with its zone, such as 2026-09-01T09:00:00Z or 2026-09-01T11:00:00+02:00"
)
Condition = WaitAfter | WaitProfile


def read_wait(draft: Draft) -> tuple[Condition, ...]:
    sweep((draft.run, draft.on), WAIT)
    run = draft.run
    node = run.given("waitFor")
    if node is None:
        return ()
    if draft.scheduled:
        run.refuse("waitFor", "does not go with cron yet; let the flow itself look whether it is time")
    if draft.once:
        run.refuse("waitFor", "does not go with on.once: a wait that never ends would use the one-shot up")
    if "replicas" in run.fields:
        run.refuse("waitFor", "does not go with run.replicas: each would ask for the same thing by itself")
    return _conditions(run, node)


def _conditions(run: Part, node: Node) -> tuple[Condition, ...]:
    if not isinstance(node.value, list) or not 1 <= len(node.value) <= CONDITIONS_MAX:
        run.refuse("waitFor", f"must be a list of 1 to {CONDITIONS_MAX} conditions")
    found: list[Condition] = []
    for index, item in enumerate(node.value):
        condition = _condition(run, f"waitFor[{index}]", item)
        if isinstance(condition, WaitAfter) and any(isinstance(each, WaitAfter) for each in found):
            run.refuse(
                f"waitFor[{index}]", "is a second after; only the later one would count, so write that one"
            )
        if condition in found:
            run.refuse(f"waitFor[{index}]", "names a profile a second time")
        found.append(condition)
    return tuple(found)


def _condition(run: Part, place: str, item: Node) -> Condition:
    if not isinstance(item.value, dict) or len(item.value) != 1:
        run.refuse(place, 'must be an object with exactly one of "after" and "profile"')
    ((key, value),) = item.value.items()
    match key:
        case "after":
            instant = instant_of(value.value) if isinstance(value.value, str) else None
            if instant is None:
                run.refuse(place, f"after {_INSTANT_WANTED}")
            return WaitAfter(instant)
        case "profile":
            if not isinstance(value.value, str) or not trim(value.value):
                run.refuse(place, "profile must be a text that is not empty")
            if not is_name(value.value):
                run.refuse(place, f"profile must be of {NAME_WANTED}")
            return WaitProfile(value.value)
        case "exclusive":
            return run.refuse(
                place, "exclusive is no condition: a folder never has more than one run; delete it"
            )
        case _:
            return run.refuse(place, f"holds the unknown condition {shown(key)}; known are after, profile")


def instant_of(text: str) -> datetime | None:
    """The aware UTC instant; None when it is none, has no zone, or is a day that no calendar has."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute = (int(part) for part in found.group(1, 2, 3, 4, 5))
    micro = int((found[7] or "")[:6].ljust(6, "0"))
    offset = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0)) * (-1 if found[8] == "-" else 1)
    try:
        written = datetime(year, month, day, hour, minute, int(found[6] or 0), micro, timezone(offset))
        return written.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
