"""Admissions per second and their p99, beside bare transactions on the same two window rows.

    python benchmarks/admission.py [--quick] [--rounds N]

The last line is one JSON object. See benchmarks/README.md.
"""

import argparse
import contextlib
import itertools
import math
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # measure the checkout this file lies in, installed or not

from sides import history, verdict  # noqa: E402
from sides.admitting import Order, serve  # noqa: E402

from pidispatch.domain.limits.windows import EVERYTHING, run_caps  # noqa: E402
from pidispatch.services.account import server_account  # noqa: E402
from pidispatch.services.postgres import EmbeddedPostgres  # noqa: E402
from pidispatch.store import migrating  # noqa: E402
from pidispatch.store.database import Database  # noqa: E402

PROCESSES = (1, 2, 4, 8)
CAPS = run_caps(EVERYTHING, day=10**9, week=10**9, month=None)
ROUNDS = 5
FULL, QUICK = (1_000, 1_000_000), (1_000, 50_000)
EACH, QUICK_EACH = 160, 96  # admissions in one measurement, shared by its processes
WARM = 12
TARGET_RATIO, TARGET_P99 = 0.25, 1.3


@dataclass
class Cell:
    """One side with some processes: how many a second in each round, and every single time in seconds."""

    rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[math.ceil(len(self.seconds) * 0.99) - 1] * 1000


class Crew:
    """Processes that admit, each with connections of its own."""

    def __init__(self, url: str, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for number in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, url, CAPS, number), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def measure(self, side: str, times: int, processes: int) -> tuple[float, list[float]]:
        pipes = self._pipes[:processes]
        began = time.perf_counter()
        for pipe in pipes:
            pipe.send(Order(side, times // processes))
        seconds = list(itertools.chain.from_iterable(pipe.recv() for pipe in pipes))
        return len(seconds) / (time.perf_counter() - began), seconds

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(10)


@contextlib.contextmanager
def server() -> Iterator[EmbeddedPostgres]:
    """A Postgres of our own that keeps what it commits, as in use."""
    path = Path(tempfile.mkdtemp(prefix="pd-bench-", dir="/tmp"))
    path.chmod(0o711)
    postgres = EmbeddedPostgres(path / "postgres", path / "p", server_account())
    try:
        postgres.start()
        yield postgres
    finally:
        postgres.stop()
        shutil.rmtree(path, ignore_errors=True)


@dataclass
class Place:
    """One database of one size, and the crew that works on it."""

    rows: int
    database: Database
    crew: Crew
    cells: dict[tuple[str, int], Cell] = field(default_factory=dict)

    def measure(self, side: str, processes: int, times: int, *, kept: bool = True) -> None:
        if side == "ours":
            history.wait(self.database, times, f"w-{time.monotonic_ns()}-")
        rate, seconds = self.crew.measure(side, times, processes)
        history.end_all(self.database)
        if kept:
            cell = self.cells.setdefault((side, processes), Cell())
            cell.rates.append(rate)
            cell.seconds.extend(seconds)


@contextlib.contextmanager
def places(postgres: EmbeddedPostgres, sizes: tuple[int, ...]) -> Iterator[list[Place]]:
    made: list[Place] = []
    try:
        for rows in sizes:
            url = new_database(postgres, f"rows_{rows}")
            database = Database(url)
            migrating.upgrade(database)
            print(f"filling {rows} rows", file=sys.stderr)
            history.fill(database, rows)
            made.append(Place(rows, database, Crew(url, max(PROCESSES))))
        yield made
    finally:
        for place in made:
            place.crew.close()
            place.database.close()


def new_database(postgres: EmbeddedPostgres, name: str) -> str:
    import psycopg  # noqa: PLC0415

    from pidispatch.services.cluster import ADMINISTRATOR, ROLE  # noqa: PLC0415

    with psycopg.connect(
        host=str(postgres.run_dir), user=ADMINISTRATOR, dbname="postgres", autocommit=True
    ) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER {ROLE}")
    return postgres.url(name)


def measure(made: list[Place], rounds: int, each: int) -> None:
    """Interleaved, each round in another order, so that a slow minute of the machine meets everything."""
    for place in made:
        for side in ("floor", "ours"):
            place.measure(side, max(PROCESSES), WARM * max(PROCESSES), kept=False)
    cells = list(itertools.product(made, PROCESSES, ("floor", "ours")))
    for number in range(rounds):
        turned = cells[number % 2 :] + cells[: number % 2]
        for place, processes, side in turned if number % 2 == 0 else reversed(turned):
            place.measure(side, processes, each)
        print(f"\rround {number + 1} of {rounds}   ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def report(made: list[Place], before: verdict.Load, keep: str | None) -> int:
    ratios: list[float] = []
    for place in made:
        print(f"\n{place.rows} rows in runs: a second (median of rounds), ms")
        print(
            f"{'processes':>10}{'floor':>9}{'ours':>9}{'ratio':>8}{'floor p99':>11}{'ours p99':>10}{'ours p50':>10}"
        )
        for processes in PROCESSES:
            floor, ours = place.cells["floor", processes], place.cells["ours", processes]
            ratios.append(ours.rate / floor.rate)
            middle = statistics.median(ours.seconds) * 1000
            print(
                f"{processes:10}{floor.rate:9.0f}{ours.rate:9.0f}{ratios[-1]:8.2f}"
                f"{floor.p99:11.1f}{ours.p99:10.1f}{middle:10.1f}"
            )
    small, large = made[0], made[-1]
    growth = [large.cells["ours", n].p99 / small.cells["ours", n].p99 for n in PROCESSES]
    print(
        "\np99 with more rows / with few: "
        + ", ".join(f"{n}: {g:.2f}" for n, g in zip(PROCESSES, growth, strict=True))
    )
    worst, grown = min(ratios), statistics.median(growth)
    ok = worst >= TARGET_RATIO and grown <= TARGET_P99
    print(
        f"target: every ratio >= {TARGET_RATIO} ({worst:.2f}), p99 grows <= {TARGET_P99} (median {grown:.2f})"
    )
    line = {
        "name": "admission",
        "value": round(worst, 3),
        "unit": "x floor",
        "target": TARGET_RATIO,
        "ok": ok,
    }
    worst_of = [
        min(
            place.cells["ours", n].rates[number] / place.cells["floor", n].rates[number]
            for place in made
            for n in PROCESSES
        )
        for number in range(len(made[0].cells["ours", PROCESSES[0]].rates))
    ]
    return verdict.end(line, before, spread=worst_of, keep=keep)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK[-1]} rows, at most 60 s")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    verdict.add_options(parser)
    asked = parser.parse_args()
    before = verdict.load()
    with server() as postgres, places(postgres, QUICK if asked.quick else FULL) as made:
        measure(made, asked.rounds, QUICK_EACH if asked.quick else EACH)
        return report(made, before, asked.keep)


if __name__ == "__main__":
    sys.exit(main())
