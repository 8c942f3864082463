"""What the schedules of a triggers file mean on one host."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pidispatch.domain.schedules.timetable import Timetable
from pidispatch.domain.triggers.arrival import Arrival
from pidispatch.domain.triggers.catchup import Slot
from pidispatch.domain.triggers.trigger import Cron, Missed, Trigger, Triggers


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone that was settled for schedules that name none, and the host it was settled for."""

    host: str
    name: str


@dataclass(frozen=True, slots=True)
class Zones:
    """The zone of this host, and those of schedules, by id, that began on another and follow that one's still."""

    own: Zone
    followed: Mapping[str, Zone] = field(default_factory=dict)

    def of(self, schedule: str) -> Zone:
        return self.followed.get(schedule, self.own)


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """One schedule. `served`: this host has its folder. `zone_of`: the host whose zone it follows; None: it names one."""

    trigger: Trigger
    timetable: Timetable
    missed: Missed
    served: bool = True
    zone_of: str | None = None

    @property
    def id(self) -> str:
        return self.trigger.identity


@dataclass(frozen=True, slots=True)
class Standing:
    """The schedules by id. `revision` is the same wherever and whenever the same entries stand in the file."""

    entries: Mapping[str, ScheduleEntry] = field(default_factory=dict)
    revision: str = ""


def standing_of(
    triggers: Triggers, zones: Zones, *, serves: Callable[[Trigger], bool] = lambda _: True
) -> Standing:
    """`zones` is for entries that name none."""
    entries: dict[str, ScheduleEntry] = {}
    told = hashlib.sha256()
    for trigger in triggers.entries:
        if isinstance(trigger.on, Cron):
            entry = _entry(trigger, trigger.on, zones.of(trigger.identity), serves)
            entries[entry.id] = entry
            meaning = (
                entry.id, trigger.index, entry.timetable, entry.missed, trigger.while_running, trigger.work,
            )  # fmt: skip
            told.update(repr(meaning).encode("utf-8", "surrogatepass"))
    return Standing(entries, told.hexdigest()[:32])


def _entry(trigger: Trigger, on: Cron, zone: Zone, serves: Callable[[Trigger], bool]) -> ScheduleEntry:
    timetable = Timetable(on.pattern, on.tz or zone.name)
    return ScheduleEntry(trigger, timetable, on.missed, serves(trigger), None if on.tz else zone.host)


@dataclass(frozen=True, slots=True)
class Unrunnable:
    """An instant of a schedule that leads to no run. `reason` is the word of its slot."""

    reason: str


MakeRun = Callable[[ScheduleEntry, Slot, datetime | None], Arrival | Unrunnable]
"""One instant of an entry and the run that it would start; the last argument is when the schedule's run before it ended, or started."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What one look at the schedules did. `due`: how many were due; `runs`: how many runs may start at once.

    `now` is Postgres's clock, `next_at` the next instant of any schedule of this host; None: none will come.
    """

    now: datetime
    due: int
    runs: int
    next_at: datetime | None
