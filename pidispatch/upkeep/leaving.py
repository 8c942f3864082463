"""Wait, before a worker leaves, until the runs of its host have ended."""

import time
from collections.abc import Callable

import structlog

from pidispatch.domain import words
from pidispatch.domain.run import Occupant
from pidispatch.errors import DatabaseUnavailable
from pidispatch.ports import Occupants

log = structlog.get_logger(__name__)

STOP_SECONDS = 45.0
LOOK_SECONDS = 0.25


class Leaving:
    """The runs that held a slot of this host when it was called, and any that this worker still admitted.

    Those that another worker starts meanwhile are that one's: a new version must not hold up the old one's end.
    """

    def __init__(
        self,
        occupants: Occupants,
        *,
        host: str,
        worker: str,
        stop: bool,
        within: float | None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._occupants = occupants
        self._host, self._worker = host, worker
        self._stop, self._within, self._sleep = stop, within, sleep
        self._mine: set[int] | None = None

    def __call__(self) -> None:
        """Return when they have ended; with `stop` they are asked to, and waited for at most `within` seconds."""
        until = None if self._within is None else time.monotonic() + self._within
        quiet = 0
        while quiet < 2:  # an admission that was under way may have come after the first look
            left = self._left()
            quiet = quiet + 1 if left == 0 else 0
            if until is not None and time.monotonic() >= until:
                log.warning("left_while_runs_go_on", runs=left)
                return
            self._sleep(LOOK_SECONDS)

    def _left(self) -> int | None:
        """How many go on; None when Postgres does not answer."""
        try:
            there = self._occupants.occupants(self._host)
            if self._mine is None:
                self._mine = {run.run_id for run in there}
                log.info("leaving", runs=[run.public_id for run in there], stopping=self._stop)
            mine = [run for run in there if run.run_id in self._mine or run.worker == self._worker]
            if self._stop:
                self._ask(mine)
        except DatabaseUnavailable as error:
            log.warning("cannot_look_at_runs", problem=str(error))
            return None
        return len(mine)

    def _ask(self, runs: list[Occupant]) -> None:
        for run in runs:
            if run.stop_reason is None:
                self._occupants.request_stop(run.run_id, reason=words.SHUTDOWN)
