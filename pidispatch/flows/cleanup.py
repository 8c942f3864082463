"""Clean up after a box: its container, its door, its files; what fails is found again by the reconciler."""

from collections.abc import Callable

import structlog

from pidispatch.errors import PidispatchError
from pidispatch.ports import Bell, Boxes, Doors, HostFiles

log = structlog.get_logger(__name__)


class Cleanup:
    """Only ever called when the run's row says that the attempt is over."""

    def __init__(self, *, boxes: Boxes, doors: Doors, files: HostFiles, bell: Bell) -> None:
        self._boxes = boxes
        self._doors = doors
        self._files = files
        self._bell = bell

    def after(self, run_id: int, container_id: str | None, name: str | None) -> None:
        """Remove everything of one attempt. The door's directory goes last: the container mounted it."""
        if container_id is not None and not _tried("container", lambda: self._boxes.remove(container_id)):
            return
        if name is not None:
            _tried("files", lambda: self._files.remove(name))
        _tried("door", lambda: self._doors.remove(run_id))

    def ring(self, host: str, *, children: int = 0) -> None:
        """A slot is free: every ending rings once, and once more for each run that it queued."""
        _tried("bell", lambda: self._bell.ring_start(host, 1 + children))


def _tried(what: str, act: Callable[[], None]) -> bool:
    try:
        act()
    except PidispatchError as error:
        log.info("cleanup_left", what=what, problem=str(error))
        return False
    return True
