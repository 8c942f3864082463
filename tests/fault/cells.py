"""Read the matrix: which cells are declared, and which are excluded with what reason."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("matrix.toml")
QUICK = (
    "worker x preparing",
    "worker x first-call-in-flight",
    "master x finishing",
    "gateway x first-call-in-flight",
    "gateway x go-given",
    "redis-wiped x queued-committed",
    "postgres x door-open",
    "postgres x ended-not-cleaned",
)
QUICK_DISKS = ("disk-data x finishing", "disk-home x finishing", "disk-folder x first-call-in-flight")


def quick_cells() -> tuple[str, ...]:
    """The names of a few cells of each kind that one house can play; only root makes the small disks for some."""
    return QUICK + (QUICK_DISKS if os.geteuid() == 0 else ())


# One house serves a lane, so lanes may run beside each other.
LANES = {
    "kill": ("worker", "master", "gateway", "redis", "redis-wiped", "postgres"),
    "dockerd": ("dockerd",),
    "dockerd-live": ("dockerd-live",),
    "pgbouncer": ("pgbouncer",),
    "standby": ("standby",),
    "stop-worker": ("stop-worker",),
    "stop-gateway": ("stop-gateway",),
    "clock": ("clock-forward", "clock-back"),
    "disk": ("disk-data", "disk-home", "disk-folder"),
    "disk-engine": ("disk-engine",),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One fault at one step. `endings` are the words a run may end with: `completed`, or a reason."""

    victim: str
    step: str
    endings: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.victim} x {self.step}"

    @property
    def lane(self) -> str:
        return next(lane for lane, victims in LANES.items() if self.victim in victims)


@dataclass(frozen=True, slots=True)
class Matrix:
    steps: Mapping[str, str]
    victims: Mapping[str, str]
    declared: Sequence[Cell]
    excluded: Mapping[str, str]


def read_matrix(file: Path = FILE) -> Matrix:
    """Every cell of the product is either declared or excluded; a name that is no cell is an error."""
    said: dict[str, Any] = tomllib.loads(file.read_text())
    steps, victims = said["steps"], said["victims"]
    names = [f"{victim} x {step}" for victim in victims for step in steps]
    excluded = {
        f"{victim} x {step}": rule["reason"]
        for rule in said.get("excluded", [])
        for victim in rule["victims"]
        for step in rule["steps"]
    }
    unknown = (set(excluded) | set(said.get("endings", {})) | set(QUICK) | set(QUICK_DISKS)) - set(names)
    if unknown:
        raise ValueError(f"no such cells: {sorted(unknown)}")
    declared = [
        Cell(victim, step, tuple(said["endings"].get(f"{victim} x {step}", ["completed"])))
        for victim in victims
        for step in steps
        if f"{victim} x {step}" not in excluded
    ]
    return Matrix(steps, victims, declared, excluded)
