"""Remove what no live row stands for: containers, files, doors; only of this installation."""

import re
from collections.abc import Callable, Sequence

import structlog

from pidispatch.domain.run import Occupant
from pidispatch.domain.sandbox import LABEL_ATTEMPT, LABEL_ROLE, LABEL_RUN, ROLE_JOB
from pidispatch.errors import PidispatchError
from pidispatch.ports import Boxes, BoxState, Doors, HostFiles

log = structlog.get_logger(__name__)

_BOX_NAME = re.compile(r"pi-job-([0-9a-f]{8})-(\d+)-(\d+)")


class Orphans:
    """`open_doors` lists the runs that have a directory for their socket on this host."""

    def __init__(
        self,
        *,
        installation: str,
        boxes: Boxes,
        doors: Doors,
        files: HostFiles,
        open_doors: Callable[[], Sequence[int]],
    ) -> None:
        self._installation = installation
        self._boxes = boxes
        self._doors = doors
        self._files = files
        self._open_doors = open_doors

    def remove(self, boxes: Sequence[BoxState], rows: Sequence[Occupant]) -> None:
        """`boxes` were listed before `rows`, so that a box of a new run is not taken for an orphan."""
        live = {(run.run_id, run.attempt) for run in rows}
        boxed: set[tuple[int, int]] = set()
        for box in boxes:
            key = _identity(box)
            if key is None or key in live:
                continue
            if _tried("container", box.name, lambda box=box: self._boxes.remove(box.container_id)):  # type: ignore[misc]
                log.info("orphan_removed", box=box.name)
            else:
                boxed.add(key)  # its container is still there, so its files and its door stay
        self._remove_files(live | boxed)
        self._remove_doors({run_id for run_id, _ in live | boxed})

    def _remove_files(self, kept: set[tuple[int, int]]) -> None:
        for name in self._files.leftovers():
            named = _BOX_NAME.fullmatch(name)
            if named and named[1] == self._installation and (int(named[2]), int(named[3])) not in kept:
                _tried("files", name, lambda name=name: self._files.remove(name))  # type: ignore[misc]

    def _remove_doors(self, kept: set[int]) -> None:
        for run_id in self._open_doors():
            if run_id not in kept:
                _tried("door", str(run_id), lambda run_id=run_id: self._close(run_id))  # type: ignore[misc]

    def _close(self, run_id: int) -> None:
        self._doors.close(run_id)
        self._doors.remove(run_id)


def _identity(box: BoxState) -> tuple[int, int] | None:
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
