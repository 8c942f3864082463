"""Time from kill -9 of a worker in the middle of a job until the job is finished, beside stock Dramatiq.

    python benchmarks/recovery.py [--quick] [--rounds N]

The last line is one JSON object. See benchmarks/README.md.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # measure the checkout this file lies in, installed or not

from sides import verdict  # noqa: E402
from sides.stock import WORK_SECONDS, Stock  # noqa: E402

from pidispatch.services.account import server_account  # noqa: E402
from pidispatch.services.valkey import EmbeddedValkey  # noqa: E402
from tests.fault.cells import Cell  # noqa: E402
from tests.fault.clock import Clock  # noqa: E402
from tests.fault.engine import Engine  # noqa: E402
from tests.fault.house import House, a_house  # noqa: E402
from tests.fault.play import play  # noqa: E402

TARGET = 30.0
QUICK_ROUNDS, ROUNDS = 3, 20
QUICK_LIMIT, LIMIT = 45.0, 1500.0
QUICK_ROUNDS_UNTIL = 22.0  # seconds after the strike; a round may take 25
STEPS = ("first-call-in-flight", "preparing", "finishing")  # in the middle of the run, and at both its ends


def ours(house: House, rounds: int, *, until: float) -> list[float]:
    """Seconds of each round; a round that does not end as it should ends the benchmark."""
    seconds = []
    for step in itertools.islice(itertools.cycle(STEPS), rounds):
        if seconds and time.monotonic() > until:
            break
        result = play(house, Cell("worker", step, ("completed",)))
        if not result.passed or result.seconds is None:
            raise SystemExit(f"{result.cell}: {'; '.join(result.problems)}")
        print(f"pidispatch, killed at {step}: {result.seconds:.1f} s")
        seconds.append(result.seconds)
    return seconds


def stock_until(stock: Stock, struck: float, limit: float) -> float | None:
    while not stock.recovered():
        if time.monotonic() - struck > limit:
            return None
        time.sleep(0.1)
    return time.monotonic() - struck


@contextmanager
def valkey() -> Iterator[str]:
    """A server of its own for the other side, as durable as ours."""
    with tempfile.TemporaryDirectory(prefix="pdv-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        server = EmbeddedValkey(Path(folder, "data"), Path(folder, "v"), server_account())
        server.start()
        try:
            yield server.url()
        finally:
            server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    verdict.add_options(parser)
    options = parser.parse_args()
    before = verdict.load()
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    limit = QUICK_LIMIT if options.quick else LIMIT
    with (
        valkey() as redis,
        tempfile.TemporaryDirectory(prefix="pd-bench-") as folder,
        Stock(redis, Path(folder)) as stock,
    ):
        struck = stock.strike()
        with a_house(Engine(), Clock()) as house:  # it starts, works and ends while the other is waited for
            seconds = ours(house, rounds, until=struck + (QUICK_ROUNDS_UNTIL if options.quick else LIMIT))
        theirs = stock_until(stock, struck, limit)
    said = f"not recovered in {limit:g} s" if theirs is None else f"{theirs - WORK_SECONDS:.1f} s"
    print(f"stock Dramatiq, its defaults: {said}")
    worst = max(seconds)
    line = {
        "name": "recovery",
        "of": "the longest after kill -9 of a worker",
        "value": round(worst, 1),
        "unit": "s",
        "target": TARGET,
        "ok": worst <= TARGET,
        "rounds": len(seconds),
        "stock": said,
    }
    return verdict.end(line, before, spread=seconds, keep=options.keep)


if __name__ == "__main__":
    raise SystemExit(main())
