"""Look at the operator's files all the time, so that a bad edit is told whether or not anything asks for them."""

import threading
from collections.abc import Callable, Sequence

import structlog

from pidispatch.errors import PidispatchError

log = structlog.get_logger(__name__)

EVERY = 0.5  # seconds: an edit is told within one


class FileWatch:
    """Each of `looks` asks for what one file says now, which logs what has changed. Nothing that it raises ends the watch."""

    def __init__(self, looks: Sequence[Callable[[], object]]) -> None:
        self._looks = tuple(looks)
        self._told: dict[int, str] = {}

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.look()
            stop.wait(EVERY)

    def look(self) -> None:
        """One pass. A problem is told once, until it is over or another."""
        for number, look in enumerate(self._looks):
            try:
                look()
            except PidispatchError as error:
                self._tell(number, str(error))
            except Exception:
                log.exception("operator_file_watch_broke")
            else:
                self._told.pop(number, None)

    def _tell(self, number: int, problem: str) -> None:
        if self._told.get(number) != problem:
            log.error("operator_file_not_in_force", problem=problem)
        self._told[number] = problem
