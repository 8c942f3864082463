"""Print figures as tables."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figures:
    """Measured milliseconds of one side."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def p95(self) -> float:
        if len(self.values) < 2:
            return self.values[0]
        return statistics.quantiles(self.values, n=20, method="inclusive")[-1]


@dataclass(frozen=True)
class Step:
    """One step of a dispatch, its milliseconds in each round."""

    name: str
    figures: Figures


def print_figures(figures: Mapping[str, Figures], *, floor: str) -> None:
    base = figures[floor].median
    print(
        f"\n{'commit to first instruction, ms':36}{'median':>9}{'p95':>9}{'added':>9}{'added p95':>11}{'n':>5}"
    )
    for name, side in figures.items():
        added = "" if name == floor else f"{side.median - base:.1f}"
        added_p95 = "" if name == floor else f"{side.p95 - base:.1f}"
        print(f"{name:36}{side.median:9.1f}{side.p95:9.1f}{added:>9}{added_p95:>11}{len(side.values):5}")
    print("added: total less the floor's median")


def print_steps(ours: Sequence[Step], *, first: Sequence[Step], floor: Sequence[Step]) -> None:
    """`first`: the run that a fresh worker process started first."""
    beside = {step.name: f"{step.figures.median:.1f}" for step in floor}
    cold = {step.name: f"{step.figures.median:.1f}" for step in first}
    print(f"\n{'step of ours, ms':36}{'median':>9}{'p95':>9}{'first run':>11}{'floor':>9}")
    for step in ours:
        others = f"{cold[step.name]:>11}{beside.get(step.name, ''):>9}"
        print(f"{step.name:36}{step.figures.median:9.1f}{step.figures.p95:9.1f}{others}")


def added_line(ours: Figures, floor: Figures, *, median: float, p95: float) -> dict[str, Any]:
    """What was added to the floor, in the words of the last line; prints it beside its targets."""
    added, added_p95 = ours.median - floor.median, ours.p95 - floor.median
    ok = added <= median and added_p95 <= p95
    print(f"\ntarget: added median <= {median:.0f} ms ({added:.1f}), p95 <= {p95:.0f} ms ({added_p95:.1f})")
    return {"name": "dispatch", "value": round(added, 1), "unit": "ms", "target": median, "ok": ok}
