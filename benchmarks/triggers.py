"""Match events against 10,000 triggers, plan 10,000 schedules, and how late the bell is for an instant.

    python benchmarks/triggers.py [--quick] [--part match|plan|latency]

The last line is one JSON object. See benchmarks/README.md.
"""

import argparse
import contextlib
import math
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # measure the checkout this file lies in, installed or not

from admission import new_database, server  # noqa: E402
from sides import verdict  # noqa: E402
from sides.events import bare_loop, events, file_of  # noqa: E402
from sqlalchemy import text  # noqa: E402

from pidispatch.domain.box.facts import LocalFolder  # noqa: E402
from pidispatch.domain.health.hostidentity import Identity  # noqa: E402
from pidispatch.domain.runs.ask import Ask  # noqa: E402
from pidispatch.domain.triggers.inforce import Planned, Zone, Zones, standing_of  # noqa: E402
from pidispatch.domain.triggers.matching import index_of  # noqa: E402
from pidispatch.domain.triggers.matching import match as match_event  # noqa: E402
from pidispatch.domain.triggers.trigger import Cron, Trigger, Triggers, Work  # noqa: E402
from pidispatch.queue.bells import RedisBell  # noqa: E402
from pidispatch.queue.broker import make_broker  # noqa: E402
from pidispatch.services.account import server_account  # noqa: E402
from pidispatch.services.postgres import EmbeddedPostgres  # noqa: E402
from pidispatch.services.valkey import EmbeddedValkey  # noqa: E402
from pidispatch.store import migrating  # noqa: E402
from pidispatch.store.database import Database  # noqa: E402
from pidispatch.store.hosts.hosts import Hosts  # noqa: E402
from pidispatch.store.triggers.schedules import Schedules  # noqa: E402
from pidispatch.upkeep.scheduledruns import ScheduledRuns  # noqa: E402
from pidispatch.upkeep.scheduler import Scheduler  # noqa: E402

HOST = "bench"
SETTLED = Zones(Zone(HOST, "UTC"))
MANY, ZONES = 10_000, ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
MATCH_MS = 20.0  # of the worst that a stranger can send; a forge waits 10 s for its answer
MATCHES, QUICK_MATCHES = 200, 40  # of each event
PLAN_SECONDS = 10.0  # for all of them, due at the same moment, with their runs
LATE_MS = 250.0
SECONDS, QUICK_SECONDS = 60, 20
EACH = 8  # instants in each second
PROCESSES = 2


@dataclass(frozen=True)
class Measured:
    """What one part came to, in the words of the last line."""

    name: str
    value: float
    unit: str
    target: float
    ok: bool
    spread: tuple[float, float] | None = None  # the lowest and the highest


def folder(path: bytes) -> LocalFolder:
    return LocalFolder(
        path.decode(), 1, int(path.rsplit(b"/s", 1)[1]), 1000, 1000, path.decode().rsplit("/", 1)[-1]
    )


RUNS = ScheduledRuns(host=HOST, open_folder=folder)


def entries(many: int, pattern: Callable[[int], str]) -> Triggers:
    """Each in a folder of its own."""
    return Triggers(
        tuple(
            Trigger(
                n,
                n + 1,
                Cron(pattern(n), ZONES[n % len(ZONES)]),
                Work("local", Ask(flow="tidy"), folder=f"/repos/s{n}", task="Tidy up"),
                id=f"s{n}",
            )
            for n in range(many)
        )
    )


@contextlib.contextmanager
def database_of(postgres: EmbeddedPostgres, name: str) -> Iterator[tuple[str, Database]]:
    url = new_database(postgres, name)
    database = Database(url)
    try:
        migrating.upgrade(database)
        Hosts(database, host=HOST).register(
            worker="w", pid=1, version="0", capacity=4, identity=Identity(None, "benchmark")
        )
        yield url, database
    finally:
        database.close()


def match(_: EmbeddedPostgres, *, quick: bool) -> Measured:
    """Each kind of event through the whole file, in turn; beside it a loop that looks at each entry and no more."""
    file, asked = file_of(MANY), events(MANY)
    times: dict[str, list[float]] = {name: [] for name in asked}
    floor: list[float] = []
    print(
        f"\n{MANY} triggers of one forge: {_cpu_ms(lambda: index_of(file)):.1f} ms to index them, once for a file"
    )
    for _round in range(QUICK_MATCHES if quick else MATCHES):
        for name, event in asked.items():
            times[name].append(_cpu_ms(partial(match_event, event, file)))
        floor.append(_cpu_ms(partial(bare_loop, event, file.entries)))
    print(f"{'ms an event':44}{'median':>12}{'p99':>9}")
    for name, took in {"floor: look at each entry": floor, **times}.items():
        print(f"{name:44}{statistics.median(took):12.2f}{_p99(took):9.2f}")
    worst = max(_p99(took) for took in times.values())
    every = [each for took in times.values() for each in took]
    spread = (min(every), max(every))
    return Measured("match", round(worst, 1), "ms", MATCH_MS, ok=worst <= MATCH_MS, spread=spread)


def plan(postgres: EmbeddedPostgres, *, quick: bool) -> Measured:
    """From a new file to its rows, an edit of one entry, then all of them due at one moment."""
    del quick  # it takes some seconds either way
    with database_of(postgres, "plan") as (_, database):
        schedules = Schedules(database, host=HOST, make=RUNS)
        standing = standing_of(entries(MANY, lambda n: f"{n % 60} {n % 24} * * *"), SETTLED)
        steps = {"a new file becomes rows": _timed(lambda: schedules.sync(lambda: standing))}
        steps["a look that finds nothing new"] = _timed(lambda: schedules.sync(lambda: standing))
        edited = standing_of(entries(MANY, lambda n: f"{(n + (n == 7)) % 60} {n % 24} * * *"), SETTLED)
        steps["an edit of one entry"] = _timed(lambda: schedules.sync(lambda: edited))
        steps["a look that finds nothing due"] = _timed(lambda: schedules.plan(edited))
        with database.transaction() as connection:
            connection.execute(
                text("UPDATE schedules SET next_at = now(), planned_until = now() - interval '1 day'")
            )

        def all_of_them() -> None:
            while schedules.plan(edited).due:
                pass

        steps["all due at once, with their runs"] = seconds = _timed(all_of_them)
        with database.transaction() as connection:
            runs = connection.execute(text("SELECT count(*) FROM runs")).scalar_one()
    print(f"\n{MANY} schedules, s")
    for name, took in steps.items():
        print(f"{name:36}{took:9.3f}")
    print(f"{runs} runs, {MANY / seconds:.0f} schedules a second")
    return Measured("plan", round(seconds, 2), "s", PLAN_SECONDS, ok=seconds <= PLAN_SECONDS and runs == MANY)


class Watched:
    """Schedules and bell of one scheduler, with the moment of every bell by the moment that the slots carry."""

    def __init__(self, url: str, redis: str) -> None:
        self.database = Database(url)
        self._schedules = Schedules(self.database, host=HOST, make=RUNS)
        self._broker = make_broker(redis)
        self._bell = RedisBell(self._broker)
        self._last: Planned | None = None
        self.rung: dict[datetime, float] = {}
        self.sync = self._schedules.sync
        self.pending = self._bell.pending
        self.ring_finish = self._bell.ring_finish

    def plan(self, standing, now=None) -> Planned:
        self._last = self._schedules.plan(standing, now)
        return self._last

    def ring_start(self, host: str, times: int = 1) -> None:
        self._bell.ring_start(host, times)
        assert self._last is not None
        self.rung[self._last.now] = time.time()

    def close(self) -> None:
        self._broker.close()
        self.database.close()


def latency(postgres: EmbeddedPostgres, *, quick: bool) -> Measured:
    """Two schedulers beside each other, real bells; from the instant to the return of the bell."""
    with valkey() as redis, database_of(postgres, "latency") as (url, database):
        file = entries(60 * EACH, lambda n: f"{n % 60} * * * * *")
        watched = [Watched(url, redis) for _ in range(PROCESSES)]
        stop = threading.Event()
        threads = []
        for each in watched:
            scheduler = Scheduler(
                count_endings=lambda: None,
                host=HOST,
                host_zone="UTC",
                zones=lambda _: SETTLED,
                schedules=each,
                triggers=lambda: file,
                runs=RUNS,
                bell=each,
                most_bells=4,
            )
            threads.append(threading.Thread(target=scheduler.run, args=(stop, threading.Event())))
        for thread in threads:
            thread.start()
        time.sleep(QUICK_SECONDS if quick else SECONDS)
        stop.set()
        for thread in threads:
            thread.join(10)
        with database.transaction() as connection:
            slots = connection.execute(text("SELECT planned_at, decided_at FROM schedule_slots")).all()
        rung = {moment: at for each in watched for moment, at in each.rung.items()}
        late = sorted((rung[slot.decided_at] - slot.planned_at.timestamp()) * 1000 for slot in slots)
        for each in watched:
            each.close()
    p99 = _p99(late)
    print(f"\n{len(late)} instants, {PROCESSES} schedulers: from the instant to its bell, ms")
    print(
        f"median {statistics.median(late):.1f}, p99 {p99:.1f}, worst {late[-1]:.1f}, earliest {late[0]:.1f}"
    )
    ok = p99 <= LATE_MS and late[0] >= 0
    return Measured("latency", round(p99, 1), "ms", LATE_MS, ok=ok, spread=(late[0], late[-1]))


@contextlib.contextmanager
def valkey() -> Iterator[str]:
    path = Path(tempfile.mkdtemp(prefix="pd-bench-", dir="/tmp"))
    path.chmod(0o711)
    server_of_ours = EmbeddedValkey(path / "valkey", path / "v", server_account())
    try:
        server_of_ours.start()
        yield server_of_ours.url()
    finally:
        server_of_ours.stop()
        shutil.rmtree(path, ignore_errors=True)


def _p99(values: list[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def _cpu_ms(work: Callable[[], object]) -> float:
    """Of work that waits for nothing, so that what else the machine does is not counted."""
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


PARTS: dict[str, Callable[..., Measured]] = {"match": match, "plan": plan, "latency": latency}
"""By name; each takes the server and `quick`, prints its own table, and says whether its target is met."""


def report(measured: list[Measured], before: verdict.Load, keep: str | None) -> int:
    """The line's value is the last part's; every part is in `parts`."""
    for each in measured:
        print(f"target of {each.name}: <= {each.target:g} {each.unit} ({each.value:g})")
    ok = all(each.ok for each in measured)
    line = {
        **asdict(measured[-1]),
        "name": "triggers",
        "ok": ok,
        "parts": [asdict(each) for each in measured],
    }
    return verdict.end(line, before, spread=measured[-1].spread, keep=keep)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="at most 60 s")
    parser.add_argument(
        "--part", choices=sorted(PARTS), action="append", help="only this one; may be repeated"
    )
    verdict.add_options(parser)
    asked = parser.parse_args()
    before = verdict.load()
    with server() as postgres:
        return report(
            [PARTS[name](postgres, quick=asked.quick) for name in PARTS if name in (asked.part or PARTS)],
            before,
            asked.keep,
        )


if __name__ == "__main__":
    sys.exit(main())
