"""Tell of the entries of the triggers file, of what they planned, and of what planned entries the file has not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pidispatch.app.installation import Installation
from pidispatch.app.standing import standing_triggers
from pidispatch.app.triggerzone import host_zone
from pidispatch.config import Settings
from pidispatch.domain.runs.names import trigger_name
from pidispatch.domain.schedules.timetable import Timetable
from pidispatch.domain.schedules.upcoming import Coming, coming
from pidispatch.domain.triggers.trigger import Cron, Trigger, Triggers
from pidispatch.errors import ConfigurationRefused, PidispatchError
from pidispatch.store.database import Database
from pidispatch.store.hosts.zones import SettledZone, settled_zones
from pidispatch.store.read.schedule_history import (
    ScheduleRecord,
    SlotRecord,
    latest_slots,
    newest_slots,
    schedules_of,
)
from pidispatch.store.triggers.breakers import BreakerRecord, breakers_of
from pidispatch.upkeep.scheduledruns import beyond

LEAST = 4  # characters of an identity that is a hash, to name an entry by

__all__ = [
    "BreakerRecord",
    "NoSuchEntry",
    "NotScheduled",
    "ScheduleRecord",
    "ShownTriggers",
    "SlotRecord",
    "Told",
    "named",
    "next_of",
    "read_triggers",
    "slots_of",
    "standing",
]


class NoSuchEntry(PidispatchError):
    """No entry, or more than one, answers to this name."""


class NotScheduled(PidispatchError):
    """The entry waits for an event of a forge: it has no instants."""


@dataclass(frozen=True, slots=True)
class Told:
    """An entry. `trigger` is None where the file has it not (or cannot be read), `record` where no host plans it.

    `in_force`: the host that plans it does so as the entry says; None where the rows cannot be asked. `breaker` is None
    while its last run went well.
    """

    id: str
    trigger: Trigger | None
    timetable: Timetable | None
    next_at: datetime | None
    record: ScheduleRecord | None = None
    last: SlotRecord | None = None
    in_force: bool | None = None
    breaker: BreakerRecord | None = None

    @property
    def not_enforced(self) -> tuple[str, ...]:
        """The keys of `run` because of which a schedule starts nothing."""
        if self.trigger is None or self.timetable is None:
            return ()
        return beyond(self.trigger.work)

    @property
    def shown(self) -> str:
        """The id as people see it."""
        return self.id if self.trigger is None else self.trigger.shown


@dataclass(frozen=True, slots=True)
class ShownTriggers:
    """The entries in the order of the file, then those of the rows alone.

    `problems` are the file's: then nothing of it can be told, and the rows say what is in force. `without_rows` says why
    the rows cannot be asked.
    """

    file: str | None
    problems: Sequence[str]
    notes: Sequence[str]
    entries: Sequence[Told]
    without_rows: str | None = None


def read_triggers(settings: Settings) -> Triggers:
    """The file as it is now. Raises ConfigurationRefused, as a worker that starts would be."""
    return standing_triggers(settings).current()


def standing(here: Installation) -> ShownTriggers:
    """Never raises for a file or a database that cannot be read: that is what it tells."""
    settings = here.settings
    problems: Sequence[str] = ()
    triggers = Triggers()
    try:
        triggers = read_triggers(settings)
    except ConfigurationRefused as error:
        problems = error.problems
    rows, without_rows = None, None
    try:
        rows = _rows(here.database, triggers)
    except PidispatchError as error:
        without_rows = str(error)
    entries = tuple(_entries(triggers, rows or _Rows(), settings.worker_name, asked=rows is not None))
    file = None if settings.triggers_file is None else str(settings.triggers_file)
    return ShownTriggers(file, problems, triggers.notes, entries, without_rows)


def slots_of(here: Installation, schedule: str, most: int) -> Sequence[SlotRecord]:
    """The newest first. Raises as `Installation.database`."""
    return latest_slots(here.database, schedule, most)


def named(found: ShownTriggers, name: str) -> Told:
    """The entry of this id, or of this beginning of an identity. Raises NoSuchTrigger."""
    exact = [each for each in found.entries if each.id == name]
    begun = [
        each
        for each in found.entries
        if each.shown != each.id and len(name) >= LEAST and each.id.startswith(name)
    ]
    match exact or begun:
        case [one]:
            return one
        case []:
            where = found.file or "PI_TRIGGERS_FILE, which is not set"
            raise NoSuchEntry(f"there is no trigger {name!r} in {where}; `pidispatch triggers` lists them")
        case several:
            places = ", ".join(f"triggers[{each.trigger.index}]" for each in several if each.trigger)
            raise NoSuchEntry(f"several triggers answer to {name!r}: {places}; give each an id")


def next_of(told: Told, most: int, now: datetime | None = None) -> Sequence[Coming]:
    """The coming instants, as the entry of the file says, else as it is planned. Raises NotScheduled."""
    if told.timetable is None:
        raise NotScheduled(f"{told.shown} is no schedule: an event of a forge starts it")
    if not told.timetable.sound:
        raise NotScheduled(f"this machine cannot tell {told.timetable.pattern!r} in {told.timetable.zone}")
    return tuple(coming(told.timetable, now or datetime.now(UTC), most))


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the database knows of the entries: schedules and last slots by id, breakers by what a run holds of it."""

    records: Mapping[str, ScheduleRecord] = field(default_factory=dict)
    last: Mapping[str, SlotRecord] = field(default_factory=dict)
    breakers: Mapping[str, BreakerRecord] = field(default_factory=dict)
    zones: Mapping[str, SettledZone] = field(default_factory=dict)

    def zone(self, host: str, record: ScheduleRecord | None) -> str:
        """That of an entry which names none."""
        followed = self.zones.get(host if record is None else record.zone_of or host)
        return host_zone() if followed is None else followed.zone

    def breaker(self, identity: str) -> BreakerRecord | None:
        return self.breakers.get(trigger_name(identity))


def _rows(database: Database, triggers: Triggers) -> _Rows:
    records = {each.id: each for each in schedules_of(database)}
    scheduled = {each.identity for each in triggers.entries if isinstance(each.on, Cron)} | records.keys()
    known = scheduled | {each.identity for each in triggers.entries}
    breakers = breakers_of(database, sorted({trigger_name(each) for each in known}))
    return _Rows(records, newest_slots(database, sorted(scheduled)), breakers, settled_zones(database))


def _entries(triggers: Triggers, rows: _Rows, host: str, *, asked: bool) -> Iterator[Told]:
    for trigger in triggers.entries:
        if isinstance(trigger.on, Cron):
            yield _scheduled(trigger, trigger.on, rows, host, asked=asked)
        else:
            yield Told(trigger.identity, trigger, None, None, breaker=rows.breaker(trigger.identity))
    known = {each.identity for each in triggers.entries}
    for record in rows.records.values():
        if record.id not in known:
            timetable = Timetable(record.pattern, record.zone)
            last, breaker = rows.last.get(record.id), rows.breaker(record.id)
            yield Told(
                record.id, None, timetable, record.next_at, record, last, in_force=True, breaker=breaker
            )


def _scheduled(trigger: Trigger, on: Cron, rows: _Rows, host: str, *, asked: bool) -> Told:
    identity = trigger.identity
    record = rows.records.get(identity)
    zone = on.tz or rows.zone(host, record)
    timetable = Timetable(on.pattern, zone)
    told = None if record is None else (record.pattern, record.zone, record.missed)
    in_force = told == (on.pattern, zone, on.missed.value) if asked else None
    next_at = record.next_at if record is not None and in_force else timetable.next(datetime.now(UTC))
    last, breaker = rows.last.get(identity), rows.breaker(identity)
    return Told(identity, trigger, timetable, next_at, record, last, in_force, breaker)
