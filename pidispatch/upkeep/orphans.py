"""Remove what no live row stands for: containers, files, doors; only of this installation."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.box.sandbox import LABEL_ATTEMPT, LABEL_ROLE, LABEL_RUN, ROLE_JOB
from pidispatch.domain.runs.run import Occupant
from pidispatch.errors import PidispatchError
from pidispatch.ports import Boxes, Doors, HostFiles
from pidispatch.store.runs.transitions import Runs

log = structlog.get_logger(__name__)

_BOX_NAME = re.compile(r"pi-job-([0-9a-f]{8})-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """What lay on this host: containers, the names of job files, the runs that have a door."""

    boxes: Sequence[BoxState]
    files: Sequence[str]
    doors: Sequence[int]


class Orphans:
    """`open_doors` lists the runs that have a directory for their socket on this host."""

    def __init__(
        self,
        *,
        installation: str,
        boxes: Boxes,
        doors: Doors,
        files: HostFiles,
        occupants: Runs,
        open_doors: Callable[[], Sequence[int]],
    ) -> None:
        self._installation = installation
        self._boxes = boxes
        self._doors = doors
        self._files = files
        self._occupants = occupants
        self._open_doors = open_doors

    def see(self, boxes: Sequence[BoxState]) -> Seen:
        """Look at what lies here, before the rows are read: then nothing of a run that starts meanwhile is in it."""
        return Seen(boxes, self._files.leftovers(), self._open_doors())

    def remove(self, seen: Seen, rows: Sequence[Occupant]) -> None:
        """`rows` were read after `seen`, so that what a new run has just made is not taken for an orphan.

        Each is looked up again before it goes: a run that waited may have its next attempt by now, behind the same door.
        """
        live = {(run.run_id, run.attempt) for run in rows}
        boxed: set[tuple[int, int]] = set()
        for box in seen.boxes:
            key = attempt_of(box)
            if key is None or key in live:
                continue
            if self._holds_a_slot(*key):
                boxed.add(key)
            elif _tried("container", box.name, lambda box=box: self._boxes.remove(box.container_id)):  # type: ignore[misc]
                log.info("orphan_removed", box=box.name)
            else:
                boxed.add(key)  # its container is still there, so its files and its door stay
        self._remove_files(seen.files, live | boxed)
        self._remove_doors(seen.doors, {run_id for run_id, _ in live | boxed})

    def _remove_files(self, names: Sequence[str], kept: set[tuple[int, int]]) -> None:
        for name in names:
            named = _BOX_NAME.fullmatch(name)
            if not named or named[1] != self._installation:
                continue
            key = int(named[2]), int(named[3])
            if key not in kept and not self._holds_a_slot(*key):
                _tried("files", name, lambda name=name: self._files.remove(name))  # type: ignore[misc]

    def _remove_doors(self, doors: Sequence[int], kept: set[int]) -> None:
        for run_id in doors:
            if run_id not in kept and not self._holds_a_slot(run_id):
                _tried("door", str(run_id), lambda run_id=run_id: self._doors.remove(run_id))  # type: ignore[misc]

    def _holds_a_slot(self, run_id: int, attempt: int | None = None) -> bool:
        run = self._occupants.occupant(run_id)
        return run is not None and attempt in {None, run.attempt}


def attempt_of(box: BoxState) -> tuple[int, int] | None:
    """The run and attempt a job's box names; None for other boxes of ours, which are not judged here."""
    if box.labels.get(LABEL_ROLE) != ROLE_JOB:
        return None
    try:
        return int(box.labels[LABEL_RUN]), int(box.labels[LABEL_ATTEMPT])
    except (KeyError, ValueError):
        return None


def _tried(what: str, name: str, act: Callable[[], None]) -> bool:
    try:
        act()
    except PidispatchError as error:
        log.info("orphan_left", what=what, name=name, problem=str(error))
        return False
    return True
