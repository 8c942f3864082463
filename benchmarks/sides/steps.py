"""Read from the worker's log how long each step of our runs took."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sides.report import Figures, Step


@dataclass(frozen=True)
class Timed:
    """Moments of one run, seconds since 1970."""

    public_id: str
    committed: float
    rung: float
    first: float


def read_steps(log: Path, runs: list[Timed]) -> list[Step]:
    """From commit to first instruction without a gap: every millisecond is in one step."""
    said: dict[tuple[str, str], dict[str, Any]] = {}
    for line in log.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line[line.index("{") :])
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("event") in {"admitted", "box_started"}:
            said[entry["event"], entry["run"]] = entry
    rows = [_row(run, said["admitted", run.public_id], said["box_started", run.public_id]) for run in runs]
    return [Step(name, Figures(tuple(row[name] for row in rows))) for name in rows[0]]


def _row(run: Timed, admitted: dict[str, Any], started: dict[str, Any]) -> dict[str, float]:
    admission, launch = admitted["milliseconds"], dict(started["milliseconds"])
    admitted_at, started_at = (_milliseconds(entry["timestamp"]) for entry in (admitted, started))
    begins = started_at - sum(launch.values())
    heard = admitted_at - sum(admission.values())
    start = launch.pop("start")
    return {
        "commit to bell rung": (run.rung - run.committed) * 1000,
        "bell rung to heard": heard - run.rung * 1000,
        **{f"admission: {step}": value for step, value in admission.items()},
        "hand-over to the actor": begins - admitted_at,
        **{step if step == "create" else f"launch: {step}": value for step, value in launch.items()},
        "start to first instruction": run.first * 1000 - (started_at - start),
    }


def _milliseconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp() * 1000
