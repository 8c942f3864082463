"""Start what schedules say, at the instant they say it; any number of processes of a host may."""

import threading
import time
from collections.abc import Callable

import structlog

from pidispatch.domain.triggers.inforce import Planned, Standing, Zones, standing_of
from pidispatch.domain.triggers.trigger import Triggers
from pidispatch.errors import PidispatchError, QueueUnavailable
from pidispatch.ports import Bell
from pidispatch.store.triggers.schedules import Schedules
from pidispatch.upkeep.scheduledruns import ScheduledRuns, beyond

log = structlog.get_logger(__name__)

LOOK_AT_FILE = 0.25  # seconds: an edit takes effect within one
LOOK_AT_ROWS = 5.0  # seconds: for a clock that was put forward
SYNC_AGAIN = 30.0  # seconds: for hosts that died, and folders that came or went
EARLY = 0.001  # seconds: two clocks never agree to the last digit
LEFT_TO_OTHERS = 0.05  # seconds until a look at what another process is planning
TROUBLE = 2.0  # seconds


class Scheduler:
    """`triggers` gives what is in force now, by the file as it is at this moment. `most_bells` is the host's room.

    `zones` tells which zone is settled for entries that name none; given this process's, where none is yet.
    `count_endings` keeps the breakers up with the runs that ended.
    """

    def __init__(
        self,
        *,
        host: str,
        host_zone: str,
        zones: Callable[[str], Zones],
        schedules: Schedules,
        triggers: Callable[[], Triggers],
        runs: ScheduledRuns,
        bell: Bell,
        most_bells: int,
        count_endings: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._host_zone = host_zone
        self._zones = zones
        self._schedules = schedules
        self._triggers = triggers
        self._runs = runs
        self._bell = bell
        self._most_bells = most_bells
        self._count_endings = count_endings
        self._monotonic = monotonic
        self._seen: Triggers | None = None
        self._settled_zone: str | None = None
        self._standing = Standing()
        self._sync_at = 0.0
        self._plan_at = 0.0

    def run(self, stop: threading.Event, wake: threading.Event) -> None:
        """Look whenever an instant comes, the file may have changed, or `wake` is set, until `stop` is."""
        while not stop.is_set():
            wake.clear()
            try:
                pause = self.look()
            except PidispatchError as error:
                log.warning("scheduler_failed", problem=str(error))
                pause = TROUBLE
            except Exception:
                log.exception("scheduler_broke")
                pause = TROUBLE
            wake.wait(pause)

    def look(self) -> float:
        """One pass; returns in how many seconds the next is due."""
        triggers = self._triggers()
        if triggers != self._seen or self._monotonic() >= self._sync_at:
            if self._seen is not None:
                self._plan()  # what came before the edit starts as it was written before
            self._sync()
        if self._monotonic() >= self._plan_at:
            self._plan()
        return max(0.0, min(LOOK_AT_FILE, self._plan_at - self._monotonic()))

    def _sync(self) -> None:
        seen: list[Triggers] = []

        def current() -> Standing:
            seen.append(self._triggers())
            zones = self._zones(self._host_zone)
            self._tell_zone(zones.own.name)
            return standing_of(seen[-1], zones, serves=self._runs.serves)

        self._standing = self._schedules.sync(current)
        if seen[-1] != self._seen:
            self._tell()
        self._seen = seen[-1]
        self._sync_at = self._monotonic() + SYNC_AGAIN
        self._plan_at = 0.0

    def _plan(self) -> None:
        """Plan until nothing more is due here, knowing how the runs before ended."""
        self._count_endings()
        while True:
            began = self._monotonic()
            planned = self._schedules.plan(self._standing)
            self._ring(planned)
            if planned.due == 0 or planned.next_at is None or planned.next_at > planned.now:
                break
        wait = LOOK_AT_ROWS
        if planned.next_at is not None:
            ahead = (planned.next_at - planned.now).total_seconds()
            wait = min(wait, ahead + EARLY if ahead > 0 else LEFT_TO_OTHERS)
        self._plan_at = began + wait

    def _ring(self, planned: Planned) -> None:
        if planned.runs == 0:
            return
        log.info("schedules_due", schedules=planned.due, runs=planned.runs)
        try:
            self._bell.ring_start(self._host, min(planned.runs, self._most_bells))
        except QueueUnavailable as error:
            log.warning(
                "not_rung", problem=str(error)
            )  # the rows are committed: the reconciler rings for them

    def _tell_zone(self, settled: str) -> None:
        """Once for each zone that is settled: two workers of a host must not plan by two clocks."""
        if settled == self._settled_zone:
            return
        self._settled_zone = settled
        if settled != self._host_zone:
            way_out = "give entries a tz, or change it: `pidispatch triggers zone ZONE`"
            log.warning("schedules_zone_differs", settled=settled, own=self._host_zone, way_out=way_out)
        else:
            log.info("schedules_zone", settled=settled)

    def _tell(self) -> None:
        entries = self._standing.entries.values()
        log.info("schedules_synced", schedules=len(entries), unserved=[e.id for e in entries if not e.served])
        for entry in entries:
            if asked := beyond(entry.trigger.work):
                log.error("schedule_starts_nothing", schedule=entry.id, not_enforced_yet=list(asked))
