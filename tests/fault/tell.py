"""Write the results of the fault matrix for people."""

from collections.abc import Sequence

from tests.fault.cells import Cell, Matrix
from tests.fault.play import Result

HEAD = """# The fault matrix

Written by `make fault`. Each cell brings a real run (real Postgres, Redis, gateway, worker of two processes, Docker
box, pi; a scripted provider) to a step of its life, does something to one part, lets a supervisor start it again
after a second, and looks until everything is over: one terminal record, the ledger exact, boxes that got their go =
attempts charged by Docker's own event log, and no container, socket, directory or occupying row left.

A cell shows how the run ended, its attempts, and the seconds from the fault to all of that; the promise is 30 s,
counted from when Postgres and Docker answer (and a stopped gateway goes on). The run's own work, 2 to 4 s, is in it.
"""


def last_line(chosen: Sequence[Cell], results: Sequence[Result]) -> str:
    failed = sum(not result.passed for result in results)
    slowest = max((result.seconds for result in results if result.seconds is not None), default=0.0)
    return f"fault matrix: {len(chosen)} declared, {len(results)} run, {failed} failed, p100 {slowest:.1f} s"


def document(matrix: Matrix, results: Sequence[Result]) -> str:
    """Steps down, faults across."""
    by_cell = {result.cell: result for result in results}
    lines = [HEAD, "| step | " + " | ".join(matrix.victims) + " |", "|---" * (len(matrix.victims) + 1) + "|"]
    for step in matrix.steps:
        cells = [
            _shown(by_cell.get(f"{victim} x {step}"), matrix, f"{victim} x {step}")
            for victim in matrix.victims
        ]
        lines.append(f"| {step} | " + " | ".join(cells) + " |")
    lines += ["", "## Steps", ""]
    lines += [f"- **{step}**: {meaning}" for step, meaning in matrix.steps.items()]
    lines += ["", "## Faults", ""]
    lines += [f"- **{victim}**: {meaning}" for victim, meaning in matrix.victims.items()]
    if matrix.excluded:
        lines += ["", "## Excluded", ""]
        lines += [f"- {cell}: {reason}" for cell, reason in matrix.excluded.items()]
    declared = matrix.declared
    return "\n".join([*lines, "", f"`{last_line(declared, results)}`", ""])


def _shown(result: Result | None, matrix: Matrix, name: str) -> str:
    if result is None:
        return "excluded" if name in matrix.excluded else "not run"
    seconds = "never" if result.seconds is None else f"{result.seconds:.1f} s"
    mark = "" if result.passed else "**FAILED** "
    tries = f", {result.attempts} attempts" if result.attempts > 1 else ""
    return f"{mark}{result.ended}{tries}, {seconds}"
