"""A slow and plain reading of cron patterns: walk through every minute of real time and look at the clock on the wall."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def numbers(field, low, high):
    found = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        end = int(last) if last else (high if step else int(first))
        found.update(range(int(first), end + 1, int(step or 1)))
    return found


class Plain:
    """Five fields of numbers, lists, ranges and steps."""

    def __init__(self, pattern):
        fields = pattern.split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            numbers(field, *bounds) for field, bounds in zip(fields, BOUNDS, strict=True)
        )
        self.weekdays = {day % 7 for day in weekdays}
        self.both = fields[2] == "*" or fields[4] == "*"
        self.hours_named = not fields[1].startswith("*")

    def fits(self, wall):
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        day, weekday = wall.day in self.days, (wall.weekday() + 1) % 7 in self.weekdays
        return (day and weekday) if self.both else (day or weekday)


@lru_cache(maxsize=16)
def walked(zone, start, end, step):
    """Every `step` after `start` up to `end` by what the wall shows, and by what it shows or jumps over for the first time.

    Two dictionaries: the minute on the wall to pairs of the instant and the wall.
    """
    there = ZoneInfo(zone)
    shown, first = defaultdict(list), defaultdict(list)
    furthest, moment = start.astimezone(there).replace(tzinfo=None, fold=0), start
    while moment < end:
        moment += step
        wall = moment.astimezone(there).replace(tzinfo=None, fold=0)
        shown[wall.minute].append((moment, wall))
        while furthest < wall:
            furthest += step
            first[furthest.minute].append((moment, furthest))
    return shown, first


def instants(pattern, zone, start, end, step=MINUTE):
    """Every instant later than `start` and not later than `end`, both whole steps in UTC.

    A pattern that names its hours is due when a time that it names is shown for the first time, or was jumped over;
    any other whenever the wall fits. A step of more than a minute does where the zone's offsets, their changes and the
    pattern's minutes are all multiples of it.
    """
    plain = Plain(pattern)
    shown, first = walked(zone, start, end, step)
    at = first if plain.hours_named else shown
    return sorted({moment for minute in plain.minutes for moment, wall in at[minute] if plain.fits(wall)})


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)
