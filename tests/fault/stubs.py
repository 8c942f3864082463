"""Stub boxes for a worker of its own process, where Docker would be."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from pidispatch.store.database import Database
from pidispatch.store.runs.calls import PostgresTickets
from tests.storm.boxes import StubBoxes

VARIABLE = "PIDISPATCH_FAULT_STUBS"  # the directory that the boxes share
HELD_SECONDS = 60.0
SECONDS = 0.1


class WatchedBoxes(StubBoxes):
    """They tell of their deaths, as an engine's event stream does. One that starts while `hold` exists lasts long."""

    def __init__(self, root: Path, url: str) -> None:
        tickets = PostgresTickets(Database(url, pool_size=2), timeout=600)
        super().__init__(root, tickets.give_go, tickets.is_preparing, seconds=SECONDS)
        self._hold = root / "hold"

    def start(self, container_id: str) -> None:
        self._seconds = HELD_SECONDS if self._hold.exists() else SECONDS
        super().start(container_id)

    def deaths(self, installation: str) -> Iterator[str]:
        told: set[str] = set()
        while True:
            ended = {box.container_id for box in self.ours(installation) if box.ended}
            yield from ended - told
            told = ended
            time.sleep(0.02)


class NoHelpers:
    """Where boxes are stubs, git is asked in none."""

    def sweep(self) -> int:
        return 0


def stub_boxes() -> WatchedBoxes:
    return WatchedBoxes(Path(os.environ[VARIABLE]), os.environ["DATABASE_URL"])
