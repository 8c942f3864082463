"""Decide until when a scope is paused: a window is open while a clock on the wall of its zone shows a time in it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from pidispatch.domain.runs.names import plain_scope

EVERYTHING = "*"
LOCAL = "local"
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_DAY = timedelta(days=1)
_STEP = timedelta(minutes=30)  # no zone changes its clock twice within it
_TICK = timedelta(seconds=1)  # changes of clocks happen on whole seconds


@dataclass(frozen=True, slots=True)
class PauseWindow:
    """From `begin` to before `end`, over midnight when `end` is the earlier.

    `days` (Monday is 0) and the dates `first` to `last` speak of the day on which it begins; None is no bound.
    """

    scope: str
    begin: time
    end: time
    zone: str = "UTC"
    days: frozenset[int] | None = None
    first: date | None = None
    last: date | None = None

    def covers(self, kind: str, text: str) -> bool:
        """Whether a run is in this scope: by its folder or repository, or by `forge:repository`, however spelled."""
        scope, named = plain_scope(self.scope), plain_scope(text)
        return scope in {EVERYTHING, named} or (kind != LOCAL and scope == f"{kind}:{named}")

    def until(self, now: datetime) -> datetime | None:
        """When it closes next, in UTC; None while it is closed.

        Where clocks are put back within the window it closes at each passing of `end`; a window of times that are
        skipped that day does not open.
        """
        zone = UTC if self.zone == "UTC" else ZoneInfo(self.zone)
        at = now.astimezone(UTC)
        if not self._shows(at.astimezone(zone)):
            return None
        while True:
            closing = self._closing(at.astimezone(zone))
            change = _next_change(zone, at, closing)
            if change is None:
                return closing
            if not self._shows(change.astimezone(zone)):
                return change
            at = change

    def _shows(self, wall: datetime) -> bool:
        """Whether the window is open at a time of its own wall."""
        clock = wall.time()
        if self.begin < self.end:
            return self.begin <= clock < self.end and self._begins_on(wall.date())
        if clock >= self.begin:
            return self._begins_on(wall.date())
        return clock < self.end and wall.date() > date.min and self._begins_on(wall.date() - _DAY)

    def _begins_on(self, day: date) -> bool:
        return (
            (self.days is None or day.weekday() in self.days)
            and (self.first is None or self.first <= day)
            and (self.last is None or day <= self.last)
        )

    def _closing(self, wall: datetime) -> datetime:
        """When an open window closes if the clock goes on as it goes at `wall`."""
        shown = wall.replace(tzinfo=None)
        closing = datetime.combine(shown.date(), self.end)
        if closing <= shown:
            closing += _DAY
        return wall.astimezone(UTC) + (closing - shown)


def _next_change(zone: tzinfo, begin: datetime, end: datetime) -> datetime | None:
    """The first instant after `begin` and before `end` at which the zone's clock is put on or back."""
    if zone is UTC:
        return None
    at, offset = begin, begin.astimezone(zone).utcoffset()
    while at < end:
        following = min(at + _STEP, end)
        if following.astimezone(zone).utcoffset() != offset:
            return _bisect(zone, at.replace(microsecond=0), following, offset)
        at = following
    return None


def _bisect(zone: tzinfo, before: datetime, after: datetime, offset: timedelta | None) -> datetime:
    """The first whole second in (before, after] without the offset."""
    after = after.replace(microsecond=0) + (_TICK if after.microsecond else timedelta())
    while after - before > _TICK:
        middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


@dataclass(frozen=True, slots=True)
class PauseWindows:
    """The windows in the order of the file. `notes` are worth a line in the log."""

    windows: tuple[PauseWindow, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def until(self, kind: str, text: str, now: datetime) -> datetime | None:
        """The latest end among the windows that are open for this run at the aware time `now`; None when none is."""
        return max((end for _, end in self.open(kind, text, now)), default=None)

    def open(self, kind: str, text: str, now: datetime) -> Iterator[tuple[int, datetime]]:
        """The index and the end of each window that is open for this run."""
        for index, window in enumerate(self.windows):
            if window.covers(kind, text) and (end := window.until(now)) is not None:
                yield index, end
