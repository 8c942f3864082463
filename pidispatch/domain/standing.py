"""What the schedules of a triggers file mean on one host."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pidispatch.domain.schedule import Timetable
from pidispatch.domain.triggers import Cron, Missed, Trigger, Triggers


@dataclass(frozen=True, slots=True)
class Entry:
    """One schedule. `served`: this host has its folder."""

    trigger: Trigger
    timetable: Timetable
    missed: Missed
    served: bool = True

    @property
    def id(self) -> str:
        return self.trigger.identity


@dataclass(frozen=True, slots=True)
class Standing:
    """The schedules by id. `revision` is the same wherever and whenever the same entries stand in the file."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    revision: str = ""


def standing_of(
    triggers: Triggers, *, host_zone: str, serves: Callable[[Trigger], bool] = lambda _: True
) -> Standing:
    """`host_zone` is for entries that name none."""
    entries: dict[str, Entry] = {}
    told = hashlib.sha256()
    for trigger in triggers.entries:
        if isinstance(trigger.on, Cron):
            timetable = Timetable(trigger.on.pattern, trigger.on.tz or host_zone)
            entry = Entry(trigger, timetable, trigger.on.missed, serves(trigger))
            entries[entry.id] = entry
            meaning = (entry.id, trigger.index, timetable, entry.missed, trigger.while_running, trigger.work)
            told.update(repr(meaning).encode("utf-8", "surrogatepass"))
    return Standing(entries, told.hexdigest()[:32])
