"""Tell the coming instants of a schedule, and where its zone's clock changes between them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

from pidispatch.domain.schedules.timetable import Timetable, clock_change


@dataclass(frozen=True, slots=True)
class ClockChange:
    """A zone's clock goes forward at `at` by `seconds`, back when they are negative."""

    at: datetime
    seconds: int


@dataclass(frozen=True, slots=True)
class Coming:
    """An instant in UTC, and what the zone's clock shows then. `change` is the first since the instant before.

    `skipped`: the clock jumps over the time that the pattern names, and the instant is the end of that gap.
    """

    at: datetime
    local: datetime
    change: ClockChange | None = None
    skipped: bool = False


def coming(timetable: Timetable, now: datetime, most: int) -> Iterator[Coming]:
    """At most `most` instants later than `now`, ascending; fewer where nothing comes for 50 years."""
    zone, before = ZoneInfo(timetable.zone), now.astimezone(UTC).replace(microsecond=0)
    for instant in islice(timetable.after(now), most):
        local = instant.astimezone(zone)
        changed = local.utcoffset() != before.astimezone(zone).utcoffset()  # else it went there and back
        change = clock_change(timetable.zone, before, instant) if changed else None
        if change is None:
            yield Coming(instant, local)
        else:
            told = ClockChange(change[0], int(change[1].total_seconds()))
            yield Coming(instant, local, told, _names_the_gap(timetable, *change, instant))
        before = instant


def _names_the_gap(timetable: Timetable, change: datetime, forward: timedelta, instant: datetime) -> bool:
    """Whether the pattern is due at the end of the gap for a time within it."""
    if instant != change or forward < timedelta():
        return False
    wall = (change.astimezone(ZoneInfo(timetable.zone)) - forward).replace(tzinfo=UTC)
    inside = Timetable(timetable.pattern, "UTC").next(wall - timedelta(seconds=1))
    return inside is not None and inside < wall + forward
