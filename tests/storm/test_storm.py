"""Eight worker processes against one limit: it is reached exactly and never passed, also when they are killed."""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import text

from pidispatch.domain.identity import folder_mutex
from pidispatch.domain.run import NewRun
from pidispatch.domain.sandbox import box_name
from tests.flows.site import INSTALLATION
from tests.store.builders import assert_ledger_is_exact, value
from tests.storm import ledgerlog
from tests.storm.boxes import intervals
from tests.storm.worker import HOST, StormWorker, Weather, open_folder
from tests.support.scale import scaled
from tests.support.submitting import submit as submit_run

RUNS = scaled(120, nightly=400)
ADMITTED = RUNS * 6 // 10 // 4 * 4
BETWEEN_KILLS = 5  # runs that end, about
PROCESSES, CAPACITY, AT_ONCE, PATIENCE = 8, 6, 4, 900
SCOPES = [f"folder:storm-{number}" for number in range(4)]
PAUSED = "folder:storm-paused"
COST = 700_000
ROOT = Path(__file__).resolve().parents[2]
_numbers = count(1)


@dataclass(frozen=True)
class Variant:
    """The one cap that binds: its limits, the refusal's reason, and where the windows must end."""

    limits: dict
    reason: str
    ends: dict


def variant(name):
    admitted = ADMITTED
    match name:
        case "day":
            return Variant({"daily_cap": admitted}, "over-budget", {("*", "runs", "day"): admitted})
        case "scope":
            each = admitted // len(SCOPES)
            ends = {(scope, "runs", "day"): each for scope in SCOPES}
            return Variant({"daily_cap": 10 * RUNS, "scope_day": each}, "scope-cap", ends)
        case "dollars":
            limits = {"daily_cap": 10 * RUNS, "cost": COST, "daily_micros": admitted * COST}
            return Variant(limits, "dollar-cap", {("*", "micros", "day"): admitted * COST})


def submit(database, scope, folder):
    run_id = submit_run(
        database,
        NewRun(
            public_id=f"storm-{next(_numbers)}",
            folder=folder,
            folder_given=folder,
            task=b"work",
            task_bytes=4,
            event=b"{}",
            scope=scope,
            target="local:storm",
            pinned_host=HOST,
            mutex=folder_mutex(HOST, 1, open_folder(folder).inode),
        ),
    )
    assert run_id is not None
    return run_id


class Storm:
    """The workers, and what the test may do to them."""

    def __init__(self, database, weather):
        self.database, self.weather = database, weather
        self.processes = {}
        self.killed = 0
        self.errors = Path(weather.root) / "errors"

    def start(self):
        name = f"{HOST}:w{next(_numbers)}"
        command = [sys.executable, "-m", "tests.storm.worker", json.dumps(asdict(self.weather)), name]
        with self.errors.open("a") as errors:
            self.processes[name] = subprocess.Popen(
                command, cwd=ROOT, stdout=errors, stderr=errors, start_new_session=True
            )

    def kill_one(self):
        """kill -9, and let the time pass after which a silent worker counts as gone."""
        name = random.choice(list(self.processes)[: PROCESSES // 2])  # one of the oldest: it is at work
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        self.killed += 1
        with self.database.transaction() as connection:
            connection.execute(
                text("UPDATE workers SET heartbeat_at = now() - interval '1 minute' WHERE id = :id"),
                {"id": name},
            )
        self.start()

    def unsettled(self):
        return value(
            self.database,
            "SELECT count(*) FROM runs WHERE state <> 'ended' AND scope <> :paused",
            paused=PAUSED,
        )

    def everyone_lives(self):
        dead = {name: process.poll() for name, process in self.processes.items()}
        assert not any(status is not None for status in dead.values()), self.errors.read_text()[-3000:]

    def stop(self):
        for process in self.processes.values():
            process.terminate()
        statuses = [process.wait(timeout=20) for process in self.processes.values()]
        assert set(statuses) <= {0, -15}, self.errors.read_text()[-3000:]


@contextmanager
def a_storm(database, weather):
    storm = Storm(database, weather)
    try:
        for _ in range(PROCESSES):
            storm.start()
        yield storm
    finally:
        for process in storm.processes.values():
            process.kill()
            process.wait()


@pytest.mark.parametrize("name", ["day", "scope", "dollars"])
@pytest.mark.parametrize("kills", [False, True], ids=["calm", "killed"])
def test_the_cap_is_reached_exactly_and_nothing_overlaps(database, short_directory, name, kills):
    chosen = variant(name)
    weather = Weather(
        database.url.render_as_string(hide_password=False),
        str(short_directory),
        CAPACITY,
        SCOPES,
        concurrent=AT_ONCE,
        **chosen.limits,
    )
    ledgerlog.install(database)
    subjects = [submit_one(database, number) for number in range(RUNS)]
    held_back = [submit(database, PAUSED, b"/repos/paused-%08d" % number) for number in range(3)]
    pause(database)
    began = time.monotonic()
    with closing(StormWorker(weather, f"{HOST}:keeper")) as keeper, a_storm(database, weather) as storm:
        kill_at = RUNS  # so many are left; a machine too slow to start workers as fast would get nowhere
        while left := storm.unsettled():
            assert time.monotonic() - began < PATIENCE, waiting(database)
            storm.everyone_lives()
            if kills:
                keeper.look()
                if left <= kill_at:
                    storm.kill_one()
                    kill_at = left - random.randint(0, 2 * BETWEEN_KILLS)
            time.sleep(random.uniform(0.05, 0.4) if kills else 0.1)
        took = time.monotonic() - began
        storm.stop()
        if kills:
            keeper.look()
            top_up(database, keeper, chosen)

    hit = value(
        database, "SELECT count(*) FROM run_attempts WHERE outcome IN ('never-started', 'lost', 'failed')"
    )
    print(f"{name}: {RUNS} runs in {took:.1f} s, {storm.killed} workers killed, {hit} attempts ended by it")
    assert_ledger_is_exact(database)
    assert_windows(database, chosen)
    assert_overlaps(database, short_directory, exact=not kills)
    assert_endings(database, chosen, subjects, held_back, kills=kills)


def submit_one(database, number):
    """Every fourth shares its folder with the one before: those two never run together."""
    folder = b"/repos/r-%08d" % (number - 1 if number % 4 == 3 else number)
    return submit(database, SCOPES[number // 2 % len(SCOPES)], folder)


def pause(database):
    with database.transaction() as connection:
        connection.execute(text("UPDATE scopes SET paused_at = now() WHERE key = :key"), {"key": PAUSED})


def waiting(database):
    with database.transaction() as connection:
        return connection.execute(
            text("SELECT state, cause, count(*) FROM runs GROUP BY state, cause ORDER BY 1, 2")
        ).all()


def top_up(database, keeper, chosen):
    """A killed run that never spent gave its place back after others were refused: ask until the cap refuses."""
    for scope in SCOPES:
        refused = False
        while not refused:
            run_id = submit(database, scope, b"/repos/t-%08d" % next(_numbers))
            keeper.work()
            refused = value(database, "SELECT reason FROM runs WHERE id = :id", id=run_id) == chosen.reason


def assert_windows(database, chosen):
    replayed = ledgerlog.replay(database)
    for window, cap in chosen.ends.items():
        values = replayed[window]
        assert min(values) >= 0
        assert max(values) == cap
        assert values[-1] == cap


def assert_overlaps(database, root, *, exact):
    ran = intervals(root)
    with database.transaction() as connection:
        rows = connection.execute(
            text(
                "SELECT r.id, a.attempt, r.scope, r.mutex FROM runs r JOIN run_attempts a ON a.run_id = r.id"
            )
        ).all()
    ids = {box_id(run_id, attempt): (scope, mutex) for run_id, attempt, scope, mutex in rows}
    assert ran.keys() <= ids.keys()
    most = {scope: most_at_once([ran[box] for box in ran if ids[box][0] == scope]) for scope in SCOPES}
    assert max(most.values()) <= AT_ONCE
    assert most_at_once(ran.values()) <= CAPACITY
    print(f"at once: {most}, on the host {most_at_once(ran.values())}")
    folders = Counter(ids[box][1] for box in ran)
    for mutex in [mutex for mutex, times in folders.items() if times > 1]:
        assert most_at_once([ran[box] for box in ran if ids[box][1] == mutex]) == 1
    if exact:
        charged = value(database, "SELECT count(*) FROM run_attempts WHERE go_at IS NOT NULL")
        assert len(ran) == charged


def box_id(run_id, attempt):
    import hashlib

    return hashlib.sha256(box_name(INSTALLATION, run_id, attempt).encode()).hexdigest()


def most_at_once(spans):
    """An end at the same microsecond as a start comes first."""
    events = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, step in events:
        now += step
        most = max(most, now)
    return most


def assert_endings(database, chosen, subjects, held_back, *, kills):
    with database.transaction() as connection:
        rows = connection.execute(
            text(
                "SELECT r.id, r.state, r.outcome, r.reason, w.cause, r.attempt,"
                " (SELECT count(*) FROM run_attempts a WHERE a.run_id = r.id AND a.go_at IS NOT NULL) AS goes,"
                " (SELECT count(*) FROM reservations v WHERE v.run_id = r.id AND v.state = 'settled') AS kept,"
                " (SELECT count(*) FROM reservations v WHERE v.run_id = r.id AND v.state = 'held') AS held"
                " FROM runs r LEFT JOIN why_waiting w ON w.public_id = r.public_id ORDER BY r.id"
            )
        ).all()
    kinds = Counter()
    for row in rows:
        admitted = row.state == "ended" and row.goes == 1 and row.kept > 0
        refused = row.state == "ended" and row.reason == chosen.reason and row.goes == 0 and row.kept == 0
        never = row.state == "ended" and row.reason == "container-never-started" and kills and row.kept == 0
        waits = row.state != "ended" and row.cause is not None and row.goes == 0
        assert [admitted, refused, never, waits].count(True) == 1, row
        assert row.held == 0
        kinds["admitted" if admitted else "refused" if refused else "never" if never else "waits"] += 1
    assert kinds["waits"] == len(held_back)
    assert len(rows) >= len(subjects) + len(held_back)
    if not kills:
        assert kinds == {
            "admitted": ADMITTED,
            "refused": RUNS - ADMITTED,
            "waits": len(held_back),
        }
