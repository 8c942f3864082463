"""Time from a run's commit to the first instruction in its box, beside the floor and the reference's way.

    python benchmarks/dispatch.py [--quick] [--rounds N]

The last line is one JSON object. See benchmarks/README.md.
"""

import argparse
import contextlib
import itertools
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # measure the checkout this file lies in, installed or not

from sides import verdict  # noqa: E402
from sides.floor import Floor  # noqa: E402
from sides.marker import Site, marked_image  # noqa: E402
from sides.ours import Ours  # noqa: E402
from sides.reference import NotThere, Reference  # noqa: E402
from sides.report import Figures, added_line, print_figures, print_steps  # noqa: E402

ROUNDS, QUICK_ROUNDS, WARM = 30, 6, 1
QUICK_SECONDS = 45.0  # a busy machine gets fewer quick rounds: the servers take some seconds to start and end
TARGET_MEDIAN, TARGET_P95 = 60.0, 120.0
JOB_IMAGE = "pi-job:latest"


class Side(Protocol):
    """`measure` returns milliseconds to the first instruction, and leaves the machine as idle as it was."""

    name: str

    def measure(self, number: int) -> float: ...


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A directory with a short name (socket paths hold 107 bytes) that the servers' user may walk through."""
    path = Path(tempfile.mkdtemp(prefix="pd-bench-", dir="/tmp"))
    path.chmod(0o711)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def measure(sides: list[Side], rounds: int, *, until: float) -> dict[str, Figures]:
    """Interleaved, so that a slow minute of the machine meets every side; in every order, as each leaves an echo."""
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    orders = list(itertools.permutations(sides))
    for number in range(-WARM, rounds):
        if number > 0 and time.monotonic() > until:
            break
        for side in orders[number % len(orders)]:
            milliseconds = side.measure(number + WARM)
            if number >= 0:
                times[side.name].append(milliseconds)
        done = f"round {number + 1} of {rounds}" if number >= 0 else "warm"
        print(f"\r{done}   ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {name: Figures(tuple(values)) for name, values in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, at most 60 s")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    verdict.add_options(parser)
    asked = parser.parse_args()
    before = verdict.load()
    rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS)
    until = time.monotonic() + QUICK_SECONDS if asked.quick else math.inf
    with place() as home, marked_image(JOB_IMAGE) as image, contextlib.ExitStack() as stack:
        ours = stack.enter_context(Ours(home / "ours", image, ROOT))
        floor = stack.enter_context(Floor(Site(home / "floor"), ours.specimen(), ours.ask_git))
        sides: list[Side] = [floor, ours]
        try:
            reference = Reference(Site(home / "reference"), image, ours.redis_url, ours.ask_git)
            sides.insert(1, stack.enter_context(reference))
        except NotThere as problem:
            print(f"the reference's way is not measured: {problem}", file=sys.stderr)
        figures = measure(sides, rounds, until=until)
        steps, first = ours.steps(skip=WARM), ours.first_steps()
    print_figures(figures, floor=floor.name)
    print_steps(steps, first=first, floor=floor.steps(skip=WARM))
    theirs, here = figures[floor.name], figures[ours.name]
    line = added_line(here, theirs, median=TARGET_MEDIAN, p95=TARGET_P95)
    spread = [each - theirs.median for each in here.values]
    return verdict.end(line, before, spread=spread, keep=asked.keep)


if __name__ == "__main__":
    sys.exit(main())
