"""Time to the first byte and chunks a second of model streams through the gateway, beside a direct connection.

    python benchmarks/gateway.py [--quick] [--rounds N]

The last line is one JSON object. See benchmarks/README.md.
"""

import argparse
import contextlib
import multiprocessing
import socket
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # measure the checkout this file lies in, installed or not

from admission import new_database, server  # noqa: E402
from sides import household, upstream, verdict  # noqa: E402
from sides.report import Figures  # noqa: E402
from sides.streams import Connect, Streams, request  # noqa: E402

from pidispatch.store import migrating  # noqa: E402
from pidispatch.store.database import Database  # noqa: E402

# Streams at once; chunks of each, and calls one after the other in a round. Real answers are longer, calls further apart.
CALLS = {1: (20, 12), 10: (50, 5), 50: (100, 3)}
STREAMS = tuple(CALLS)
ROUNDS, QUICK_ROUNDS = 10, 2
WORDS = 4_000  # of the conversation that is asked with: 24 kB
PAUSE = 0.01  # a provider that makes a hundred pieces a second for each stream
FLAT = 10_000  # chunks of all streams together, as fast as they go
TARGET_ADDED, TARGET_RATIO = 3.0, 0.9


@dataclass
class Cell:
    """One side with some streams: milliseconds to the first byte, and chunks a second of all streams in each round."""

    first: list[float] = field(default_factory=list)
    paced: list[float] = field(default_factory=list)
    flat: list[float] = field(default_factory=list)


@contextlib.contextmanager
def process(target: Callable[..., None], *asked: Any) -> Iterator[Any]:
    """Run it in a process of its own until the block ends; yields what it says first."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=target, args=(theirs, *asked), daemon=True)
    child.start()
    theirs.close()
    try:
        yield _first_word(ours, child)
    finally:
        ours.close()
        child.join(10)


def _first_word(pipe: Connection, child: multiprocessing.process.BaseProcess) -> Any:
    if not pipe.poll(30):
        raise RuntimeError(f"{child.name} does not begin")
    return pipe.recv()


@contextlib.contextmanager
def sides() -> Iterator[dict[str, Connect]]:
    """The two ways to the same provider."""
    with server() as postgres, process(upstream.serve) as port:
        url = new_database(postgres, "gateway")
        database = Database(url)
        migrating.upgrade(database)
        runs = household.fill(database, max(STREAMS))
        database.close()
        run_dir = postgres.run_dir.parent / "r"
        with process(household.serve, url, str(run_dir), f"http://127.0.0.1:{port}/v1"):

            def through(number: int) -> socket.socket:
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(str(run_dir / "g" / str(runs[number]) / "s"))
                return sock

            yield {"direct": lambda _: socket.create_connection(("127.0.0.1", port)), "gateway": through}


def measure(ways: dict[str, Connect], rounds: int) -> dict[tuple[str, int], Cell]:
    """The two sides take turns, so that a slow minute of the machine meets both."""
    cells = {(side, count): Cell() for count in STREAMS for side in ways}
    for count, (chunks, times) in CALLS.items():
        made = {side: Streams(connect, count) for side, connect in ways.items()}
        for number in range(-1, rounds):
            for side in sorted(ways, reverse=number % 2 == 0):
                asked = request(WORDS, chunks, PAUSE)
                paced = made[side].measure(asked, times=times if number >= 0 else 1, spread=chunks * PAUSE)
                flat = made[side].measure(request(WORDS, FLAT // count, 0))
                if number >= 0:  # the first round opens connections and fills caches
                    cell = cells[side, count]
                    cell.first += [each.first * 1000 for each in paced]
                    cell.paced.append(
                        count * statistics.mean(chunks / (each.whole - each.first) for each in paced)
                    )
                    cell.flat.append(FLAT // count * count / max(each.whole for each in flat))
        for streams in made.values():
            streams.close()
        print(f"\r{count} streams   ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return cells


def report(cells: dict[tuple[str, int], Cell], before: verdict.Load, keep: str | None) -> int:
    print(f"\n{'':>8}{'':>9}{'first byte, ms':>22}{'chunks a second':>26}")
    print(f"{'streams':>8} {'side':>8}{'median':>11}{'p95':>11}{'paced':>13}{'flat out':>13}")
    added, ratios, flat = [], [], []
    for count in STREAMS:
        for side in ("direct", "gateway"):
            cell = cells[side, count]
            first = Figures(tuple(cell.first))
            print(
                f"{count:8} {side:>8}{first.median:11.2f}{first.p95:11.2f}"
                f"{statistics.median(cell.paced):13.0f}{statistics.median(cell.flat):13.0f}"
            )
        direct, ours = cells["direct", count], cells["gateway", count]
        added.append(statistics.median(ours.first) - statistics.median(direct.first))
        ratios.append(statistics.median(ours.paced) / statistics.median(direct.paced))
        flat.append(statistics.median(ours.flat) / statistics.median(direct.flat))
    for name, values in (("added, ms", added), ("paced ratio", ratios), ("flat out ratio", flat)):
        told = ", ".join(f"{count}: {each:.2f}" for count, each in zip(STREAMS, values, strict=True))
        print(f"{name:>16}: {told}")
    ok = max(added) <= TARGET_ADDED and min(ratios) >= TARGET_RATIO
    print(f"target, with any number of streams: added <= {TARGET_ADDED} ms, paced ratio >= {TARGET_RATIO}")
    line = {"name": "gateway", "value": round(max(added), 2), "unit": "ms", "target": TARGET_ADDED, "ok": ok}
    line["parts"] = {
        "added_ms": [round(each, 2) for each in added],
        "paced_ratio": [round(each, 3) for each in ratios],
        "flat_ratio": [round(each, 3) for each in flat],
    }
    worst = max(STREAMS, key=lambda count: added[STREAMS.index(count)])
    direct = statistics.median(cells["direct", worst].first)
    spread = [each - direct for each in cells["gateway", worst].first]
    return verdict.end(line, before, spread=spread, keep=keep)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, at most 60 s")
    parser.add_argument("--rounds", type=int)
    verdict.add_options(parser)
    asked = parser.parse_args()
    before = verdict.load()
    with sides() as ways:
        cells = measure(ways, asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS))
    return report(cells, before, asked.keep)


if __name__ == "__main__":
    sys.exit(main())
