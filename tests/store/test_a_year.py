"""Fifty schedules in twelve zones, planned by three schedulers that are killed, forgotten and out of date: six weeks around
the changes of the clocks, and at night a whole year."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from sqlalchemy import event, text

from pidispatch.domain.triggers.trigger import Missed
from pidispatch.errors import DatabaseUnavailable
from pidispatch.store.database import Database
from tests.store.builders import a_host
from tests.support.scale import NIGHTLY
from tests.support.timed import DAY, HOUR, MINUTE, an_entry, standing, the_schedules
from tests.support.wallclock import instants, utc

YEAR = (utc(2026, 1, 1), utc(2027, 1, 1))
SPRING = (utc(2026, 3, 6), utc(2026, 4, 7))  # every zone below changes its clocks in it
AUTUMN = (
    utc(2026, 10, 23),
    utc(2026, 11, 2),
)  # Berlin, New York, Havana, Beirut, Nuuk and the Azores change back
SPANS = [YEAR] if NIGHTLY else [SPRING, AUTUMN]
ZONES = [
    "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "America/Havana",
    "Africa/Casablanca", "America/Nuuk", "America/Santiago", "Asia/Kolkata", "Pacific/Chatham", "Atlantic/Azores",
]  # fmt: skip
PATTERNS = ["30 2 * * *", "0 0 * * *", "30 1 * * *", "30 23 * * *", "0 0 1 * *", "30 2 * * 0", "0 */12 * * *", "0 0 */2 * *",
            "0 0 29 2,3 *", "0 0 28-31 * 6"]  # fmt: skip
MANY = 50
STEP = 15 * MINUTE  # every offset of these zones, every change of them and every pattern is a multiple of it


class KilledError(Exception):
    """The process is gone in the middle of its transaction."""


@dataclass
class Lives:
    """One scheduler: it may know an old file, die in a transaction, or be away."""

    database: Database
    chance: random.Random
    known: object = None
    away_until: object = YEAR[0]
    dies_at: int | None = None
    said: int = 0
    deaths: int = 0

    def __post_init__(self):
        self.schedules = the_schedules(self.database)
        event.listen(self.database._engine, "before_cursor_execute", self._speak)

    def _speak(self, *_):
        self.said += 1
        if self.dies_at is not None and self.said >= self.dies_at:
            self.deaths += 1
            raise KilledError

    def act(self, work, *, mortal):
        """What `work` returns; None when it died on the way, at any of its statements."""
        self.said, self.dies_at = 0, self.chance.randint(1, 9) if mortal else None
        try:
            return work(self.schedules)
        except (KilledError, DatabaseUnavailable):
            return None
        finally:
            self.dies_at = None


@dataclass
class World:
    """The file, when each of its entries was in force, and who plans."""

    chance: random.Random
    entries: dict = field(default_factory=dict)
    spans: list = field(default_factory=list)
    since: dict = field(default_factory=dict)
    standing: object = None

    def fresh(self, name):
        return an_entry(
            name, self.chance.choice(PATTERNS), self.chance.choice(ZONES), self.chance.choice(list(Missed))
        )

    def edited(self):
        """Another file: one entry added, removed, retimed, or told something else."""
        entries = dict(self.entries)
        name = self.chance.choice(sorted(entries))
        match self.chance.choice(["add", "remove", "retime", "retell"]):
            case "add" if len(entries) < MANY + 10:
                gone = sorted({f"s{n}" for n in range(MANY + 10)} - set(entries))
                entries[gone[0]] = self.fresh(gone[0])
            case "remove" if len(entries) > MANY - 10:
                del entries[name]
            case "retime":
                entries[name] = self.fresh(name)
            case _:
                work = replace(entries[name].work, task=f"task {self.chance.random()}")
                entries[name] = replace(entries[name], work=work)
        return entries

    def took_effect(self, entries, now):
        """The old timetable of what changed ends with this instant, the new one begins after it."""
        for name in {*self.entries, *entries}:
            old, new = (self._times(each.get(name)) for each in (self.entries, entries))
            if old == new:
                continue
            if old is not None:
                self.spans.append((name, *old, self.since[name], now))
            self.since[name] = now
        self.entries, self.standing = entries, standing(*entries.values())

    def _times(self, entry):
        return None if entry is None else (entry.on.pattern, entry.on.tz)

    def expected(self, start, end):
        self.took_effect({}, end)
        found = Counter()
        by_timetable = {}
        for name, pattern, zone, since, until in self.spans:
            if (pattern, zone) not in by_timetable:
                by_timetable[pattern, zone] = instants(pattern, zone, start, end + DAY, STEP)
            found.update((name, each) for each in by_timetable[pattern, zone] if since < each <= until)
        return found


@pytest.fixture
def three(database, database_url):
    a_host(database)
    chance = random.Random(20260101)
    own = [Database(database_url, pool_size=1) for _ in range(3)]
    yield [Lives(each, chance) for each in own]
    for each in own:
        each.close()


@pytest.mark.parametrize(("start", "end"), SPANS)
def test_each_instant_has_its_slot_exactly_once(database, three, start, end):
    chance = random.Random(7)
    world = World(chance)
    world.took_effect({f"s{n}": world.fresh(f"s{n}") for n in range(MANY)}, start)
    for each in three:
        each.known = each.schedules.sync(lambda: world.standing, start)
    now, ends = start, 0
    with ThreadPoolExecutor(3) as pool:
        while now < end:
            now = _live_until_quiet(world, three, pool, chance, now)
            ends += 1

    for each in three:
        each.known = each.schedules.sync(lambda: world.standing, now)
        while each.schedules.plan(each.known, now).due:
            pass
    expected = world.expected(start, now)
    with database.transaction() as connection:
        slots = connection.execute(
            text("SELECT schedule, planned_at, state, run_id FROM schedule_slots")
        ).all()
        runs = (
            connection.execute(text("SELECT id FROM runs r JOIN run_payloads p ON p.run_id = r.id"))
            .scalars()
            .all()
        )
    assert max(expected.values()) == 1
    assert Counter((slot.schedule, slot.planned_at) for slot in slots) == expected
    started = [slot.run_id for slot in slots if slot.run_id is not None]
    assert sorted(started) == sorted(runs)
    assert all((slot.run_id is None) == (slot.state in {"skipped", "missed"}) for slot in slots)
    states = Counter(slot.state for slot in slots)
    ways = {"ran", "deferred", "skipped", "missed"}
    assert (set(states) == ways) if (start, end) != AUTUMN else (set(states) <= ways), "every way was taken"
    assert states["ran"] > len(slots) / 2
    days = (end - start) // DAY
    assert sum(each.deaths for each in three) > days * 100 // 365
    assert len(slots) > 27 * days
    print(
        f"{len(slots)} slots {dict(states)}, {len(world.spans)} timetables, {ends} wakings, "
        f"{sum(each.deaths for each in three)} deaths"
    )


def _live_until_quiet(world, three, pool, chance, now):
    """Everybody who is awake plans at `now`, until nothing is left; returns when somebody wakes next."""
    if chance.random() < 0.03:
        entries = world.edited()
        _sync(world, three, chance, now, entries)
    awake = [each for each in three if each.away_until <= now] or [three[0]]
    for each in awake:
        if chance.random() < 0.004:  # forgotten: away for a while, and back with what it knew then
            each.away_until = now + chance.choice([HOUR, 7 * HOUR, 3 * DAY])
    mortal = chance.random() < 0.15
    if chance.random() < 0.2:
        doing = [
            pool.submit(each.act, lambda s, k=each.known: s.plan(k, now), mortal=mortal) for each in awake
        ]
        for each in doing:
            each.result()
    elif mortal:
        one = chance.choice(awake)
        one.act(lambda s: s.plan(one.known, now), mortal=True)
    last = chance.choice(three)
    if last.known.revision != world.standing.revision:
        last.known = last.schedules.sync(lambda: world.standing, now)
    following = now
    while following <= now:
        following = last.schedules.plan(last.known, now).next_at or now + DAY
    if chance.random() < 0.01:  # nobody is there
        return following + chance.choice([2 * MINUTE, 5 * HOUR, 3 * DAY])
    return following + timedelta(seconds=chance.choice([0, 1, 30, 2400]))


def _sync(world, three, chance, now, entries):
    """The first of them makes the edit take effect, unless it dies on it; the others follow later."""
    wanted = standing(*entries.values())
    for each in chance.sample(three, 3):
        known = each.act(lambda s: s.sync(lambda: wanted, now), mortal=chance.random() < 0.3)
        if known is not None:
            each.known = known
            world.took_effect(entries, now)
            return
