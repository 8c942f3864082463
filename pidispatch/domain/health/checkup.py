"""Say how a check went, and compare the runs that should have a box with the boxes that are there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pidispatch.domain.runs.run import Occupant, State

WITH_A_BOX = (State.RUNNING, State.STOPPING)


class Grade(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a check-up: what was checked, how it stands, and what to do about it."""

    check: str
    grade: Grade
    detail: str
    way_out: str | None = None


@dataclass(frozen=True, slots=True)
class SeenBox:
    """A job's container as the engine tells of it; `run` and `attempt` are its labels, None when unreadable."""

    container_id: str
    name: str
    run: int | None
    attempt: int | None
    alive: bool


@dataclass(frozen=True, slots=True)
class Differences:
    """Rows and boxes that do not match, each by a key that stays the same from one look to the next."""

    boxless: Mapping[tuple[int, int], str]
    ended: Mapping[tuple[int, int], str]
    orphans: Mapping[str, str]

    def lasting(self, later: "Differences") -> "Differences":
        """What both looks saw: a start or an end under way is no fault."""
        return Differences(
            {key: words for key, words in later.boxless.items() if key in self.boxless},
            {key: words for key, words in later.ended.items() if key in self.ended},
            {key: words for key, words in later.orphans.items() if key in self.orphans},
        )

    def __bool__(self) -> bool:
        return bool(self.boxless or self.ended or self.orphans)


def differences(boxes: Sequence[SeenBox], rows: Sequence[Occupant]) -> Differences:
    """`boxes` were listed before `rows`: a box that is listed had its row before."""
    by_id = {box.container_id: box for box in boxes}
    live = {(run.run_id, run.attempt) for run in rows}
    boxless, ended = {}, {}
    for run in rows:
        if run.state not in WITH_A_BOX:
            continue
        box = by_id.get(run.container_id or "")
        if box is None:
            boxless[run.run_id, run.attempt] = f"{run.public_id} is {run.state} and has no container"
        elif not box.alive:
            ended[run.run_id, run.attempt] = f"{run.public_id} is {run.state}, but {box.name} has ended"
    orphans = {
        box.container_id: f"{box.name} ({box.container_id[:12]}) belongs to no run that is going on"
        for box in boxes
        if box.run is None or (box.run, box.attempt) not in live
    }
    return Differences(boxless, ended, orphans)
