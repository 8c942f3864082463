"""Say at which instants a cron pattern is due in its zone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

LONGEST = 256  # characters of a pattern
EPOCH = datetime(2000, 1, 1)  # noqa: DTZ001 - a wall clock's time; a leap year, so that every date comes within the search
DAY = timedelta(days=1)
HALF_DAY = timedelta(hours=12)  # no zone changes its clock twice within it
SECOND = timedelta(seconds=1)
_EVERY = {"*", "?", "*/1"}
_DAYS = {-3: "1-31", -1: "0-7"}  # fields from the right: day of month, day of week


@dataclass(frozen=True, slots=True)
class Timetable:
    """A pattern in a zone.

    A pattern that names its hours is due once for each time of the wall clock that it names: at the first of two when
    the clock goes back, at the end of the gap when it goes forward. One whose hours begin with `*` follows the time that
    passes: twice through a repeated hour, never in a gap. A local day that never was has no instants.
    """

    pattern: str
    zone: str

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The instants later than `moment`, ascending, in UTC. It ends where nothing comes for 50 years."""
        zone = ZoneInfo(self.zone)
        moment = moment.astimezone(UTC).replace(microsecond=0)
        if _fields(self.pattern)[-4].startswith("*"):
            return _passing(self.pattern, zone, moment)
        return _named(self.pattern, zone, moment)

    def next(self, moment: datetime) -> datetime | None:
        return next(self.after(moment), None)

    def come(self, since: datetime, now: datetime, most: int) -> tuple[list[datetime], datetime | None]:
        """At most `most` instants later than `since` that have come by `now`, and the one after them."""
        come: list[datetime] = []
        for instant in self.after(since):
            if instant > now or len(come) == most:
                return come, instant
            come.append(instant)
        return come, None

    @property
    def sound(self) -> bool:
        """Whether this machine can tell its instants."""
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError):
            return False
        return pattern_problem(self.pattern) is None


@lru_cache(maxsize=1024)
def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern of 5 fields, or of 6 with seconds first; None when it will be due some day."""
    if len(pattern) > LONGEST:
        return f"is longer than {LONGEST} characters"
    fields = len(pattern.split())
    if fields not in {5, 6}:
        return f"has {fields} fields; it needs 5, or 6 with seconds first"
    try:
        if next(_walls(pattern, EPOCH), None) is None:
            return "is never due"
    except (CronSimError, ValueError, AssertionError) as error:
        told = str(error)
        if told == "Bad day-of-month" and re.fullmatch(r"[\d,*/?-]+", _fields(pattern)[-3]):
            return "has a wrong day-of-month, or a day that none of its months has"
        return f"has a wrong {told.removeprefix('Bad ')}" if told.startswith("Bad ") else "is no cron pattern"
    return None


def _fields(pattern: str) -> list[str]:
    """As cron-parser reads them: either of the days must fit when both are restricted, `*/2` is a restriction."""
    fields = pattern.split()
    for place, whole in _DAYS.items():
        terms = fields[place].split(",")
        fields[place] = (
            "*"
            if _EVERY.intersection(terms)
            else ",".join(whole + term[1:] if term.startswith(("*/", "?/")) else term for term in terms)
        )
    return fields


def _walls(pattern: str, after: datetime) -> Iterator[datetime]:
    """Matching times of a wall clock that is never put forward or back."""
    return iter(CronSim(" ".join(_fields(pattern)), after))


def _named(pattern: str, zone: ZoneInfo, moment: datetime) -> Iterator[datetime]:
    latest = moment
    for wall in _walls(pattern, _wall(moment, zone)):
        instant = _first_at(wall, zone)
        if instant is not None and instant > latest:
            latest = instant
            yield instant


def _first_at(wall: datetime, zone: ZoneInfo) -> datetime | None:
    """The first instant at which a clock of the zone shows `wall` or has jumped over it; None on a day that never was."""
    before, later = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None  # noqa: S101 - a ZoneInfo always knows
    assert later is not None  # noqa: S101
    at = (wall - before).replace(tzinfo=UTC)
    if later <= before:
        return at
    return None if later - before >= DAY else _change(zone, (wall - later).replace(tzinfo=UTC), at)


def _passing(pattern: str, zone: ZoneInfo, moment: datetime) -> Iterator[datetime]:
    """Every instant whose wall time matches: between two changes of the zone's offset, the wall clock runs evenly."""
    while True:
        offset = _offset(moment, zone)
        change = None
        for wall in _walls(pattern, _wall(moment, zone)):
            instant = (wall - offset).replace(tzinfo=UTC)
            change = _change_within(zone, moment, instant)
            if change is not None:
                break
            moment = instant
            yield instant
        if change is None:
            return
        moment = change - SECOND
        if _matches_at(pattern, zone, change):
            yield change
        moment = change


def _matches_at(pattern: str, zone: ZoneInfo, instant: datetime) -> bool:
    wall = _wall(instant, zone)
    return next(_walls(pattern, wall - SECOND), None) == wall


def clock_change(zone: str, start: datetime, end: datetime) -> tuple[datetime, timedelta] | None:
    """The first change of the zone's clock in (start, end], and by how much it goes forward."""
    place = ZoneInfo(zone)
    change = _change_within(place, start, end)
    return None if change is None else (change, _offset(change, place) - _offset(start, place))


def _change_within(zone: ZoneInfo, start: datetime, end: datetime) -> datetime | None:
    """The first instant in (start, end] with another offset than at `start`."""
    offset, here = _offset(start, zone), start
    while here < end:
        there = min(here + HALF_DAY, end)
        if _offset(there, zone) != offset:
            return _change(zone, here, there)
        here = there
    return None


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """The first second in (before, after] with the offset of `after`; there is one change between them."""
    offset = _offset(after, zone)
    span = int((after - before).total_seconds())
    low, high = 0, span
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(before + middle * SECOND, zone) == offset:
            high = middle
        else:
            low = middle
    return before + high * SECOND


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    offset = moment.astimezone(zone).utcoffset()
    assert offset is not None  # noqa: S101 - a ZoneInfo always knows
    return offset


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)
