"""End a benchmark with one JSON line: its figure, how it was spread, on what machine, and a verdict unless others were at work."""

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

RESULTS = Path(__file__).resolve().parents[1] / "results"
BUSY = 0.15  # of all cores, used by others in the second before or after
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Load:
    """How busy the machine is with what is not ours: `share` of all cores during a second, `average` of a minute."""

    share: float
    average: float


def load(seconds: float = LOOK_SECONDS) -> Load:
    """Taken while the benchmark itself does nothing."""
    return Load(round(psutil.cpu_percent(interval=seconds) / 100, 3), round(os.getloadavg()[0], 2))


def machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", metavar="RELEASE", help="keep the result under this name in benchmarks/results"
    )


def end(
    line: dict[str, Any], before: Load, *, spread: Sequence[float] | None, keep: str | None = None
) -> int:
    """Print the line. `ok` becomes None on a busy machine. Returns the exit code: 0 for a target that is surely met.

    `spread` is the lowest and the highest of the value over the rounds, None where there was one round.
    """
    after = load()
    busy = max(before.share, after.share) > BUSY
    if busy:
        print(f"no verdict: others used {before.share:.0%} of the cores before and {after.share:.0%} after")
    whole = {
        **line,
        "ok": None if busy else line["ok"],
        "spread": None if spread is None else [round(each, 3) for each in (min(spread), max(spread))],
        "machine": machine(),
        "load": {"before": vars(before), "after": vars(after)},
    }
    if keep is not None:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{Path(keep).name}.{line['name']}.json").write_text(json.dumps(whole, indent=1) + "\n")
    print(json.dumps(whole))
    return 0 if whole["ok"] else 1
