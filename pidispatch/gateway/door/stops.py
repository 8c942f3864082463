"""Cut the model calls of runs whose calls an operator stopped."""

import threading
from collections.abc import Collection

import structlog

from pidispatch.errors import DatabaseRefused, DatabaseUnavailable
from pidispatch.gateway.door.doors import Doors
from pidispatch.ports import Stops

LOOK_SECONDS = 0.5

log = structlog.get_logger(__name__)


class NoStops:
    """Nobody stops anything."""

    def stopped(self, host: str) -> Collection[int]:  # noqa: ARG002 - the port's name
        return ()


NO_STOPS = NoStops()


class Stopper:
    """A thread that looks twice a second. A new call is refused by the ledger; this ends those under way."""

    def __init__(self, stops: Stops, doors: Doors, host: str, *, pause: float = LOOK_SECONDS) -> None:
        self._stops, self._doors, self._host, self._pause = stops, doors, host, pause
        self._over = threading.Event()
        self._blind = False
        self._thread = threading.Thread(target=self._watch, name="stops", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()

    def look(self) -> None:
        """Raises DatabaseUnavailable, DatabaseRefused."""
        for run_id in self._stops.stopped(self._host):
            self._doors.cut_calls(run_id)

    def _watch(self) -> None:
        while not self._over.wait(self._pause):
            try:
                self.look()
                self._blind = False
            except (DatabaseUnavailable, DatabaseRefused) as error:
                # Nobody can stop anything while the database is away, and no new call is made.
                if not self._blind:
                    log.warning("gateway.stops_unseen", problem=str(error))
                self._blind = True
            except Exception:
                log.exception("gateway.stops_failed")  # the next look may go well, and none must be the last
