"""Compare this host's rows with its containers, and act on every difference; level-triggered, like a kubelet."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import assert_never

import structlog

from pidispatch.domain import words
from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.runs.outcome import NotNow
from pidispatch.domain.runs.reconcile import (
    STOP_GRACE,
    Absence,
    Action,
    Box,
    Departure,
    act,
    departure_of,
    stop_is_unconfirmed,
)
from pidispatch.domain.runs.run import Claim, Occupant
from pidispatch.errors import EngineUnavailable, PidispatchError, QueueUnavailable, StaleEpoch
from pidispatch.flows.finish import Finisher
from pidispatch.flows.tenure import BoxFinder, Hands, Tenure
from pidispatch.ports import Bell, Boxes, BoxWatch, Notes
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.runs.losses import Losses
from pidispatch.store.runs.transitions import Runs
from pidispatch.upkeep.orphans import Orphans, attempt_of
from pidispatch.upkeep.pool import DaemonPool


class LostLookers:
    """Called when a worker starts, before it hears a bell, and at each look of the reconciler."""

    def __init__(self, notes: Notes, losses: Losses) -> None:
        self._notes, self._losses = notes, losses
        self._counted: set[tuple[int, int]] = set()

    def count(self) -> None:
        """Count what was not counted yet; the epoch keeps several processes from doing it twice. Raises DatabaseUnavailable."""
        lost = set(self._notes.lookers_lost())
        self._counted &= lost
        for run_id, epoch in sorted(lost - self._counted):
            verdict = self._losses.lost_over(run_id, epoch)
            if isinstance(verdict, NotNow):
                continue  # whoever holds its row keeps it from being looked at, too
            self._counted.add((run_id, epoch))
            if verdict is not None:
                log.warning("worker_lost_over_a_look", run=run_id, verdict=str(verdict))


log = structlog.get_logger(__name__)

PERIOD = 2.0  # seconds between looks
TIDY = 60.0  # seconds between tidyings
ALARM = 30.0  # seconds between two alarms about one stop
REPEAT = 10.0  # seconds until a bell for one ended box is rung again
MOST_ACTS = 128  # boxes that are stopped at the same time: each may take its whole grace


class Reconciler:
    """Several processes may run it for one host: what they write is fenced, what they remove is removed once.

    `sweep` removes helper boxes that were left behind; it returns how many. `mark` keeps the marks of one-shots.
    """

    def __init__(
        self,
        *,
        host: str,
        installation: str,
        occupants: Runs,
        runs: Runs,
        boxes: Boxes,
        watch: BoxWatch,
        finder: BoxFinder,
        tenure: Tenure,
        finisher: Finisher,
        hands: Hands,
        orphans: Orphans,
        bell: Bell,
        hosts: Hosts,
        lost_lookers: LostLookers,
        sweep: Callable[[], int],
        clock: Callable[[], datetime],
        mark: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._installation = installation
        self._occupants = occupants
        self._runs = runs
        self._boxes = boxes
        self._watch = watch
        self._finder = finder
        self._tenure = tenure
        self._finisher = finisher
        self._hands = hands
        self._orphans = orphans
        self._bell = bell
        self._hosts = hosts
        self._lost_lookers = lost_lookers
        self._sweep = sweep
        self._mark = mark
        self._tidied: datetime | None = None
        self._clock = clock
        self._pool = DaemonPool(MOST_ACTS, "reconcile")
        self._busy: dict[int, Future[None]] = {}
        self._rung: dict[tuple[int, int], datetime] = {}
        self._alarmed: dict[tuple[str, int], datetime] = {}
        self._leaving = False
        self._failing: str | None = None

    def leave(self) -> None:
        """Hear no bells any more: what is seen to be finished is finished here."""
        self._leaving = True

    def run(self, stop: threading.Event, wake: threading.Event) -> None:
        """Look every two seconds and whenever `wake` is set, until `stop` is."""
        while not stop.is_set():
            wake.clear()
            try:
                self.look()
                self._failing = None
            except PidispatchError as error:
                if str(error) != self._failing:  # told once, not every two seconds of an outage
                    log.warning("reconcile_failed", problem=str(error))
                self._failing = str(error)
            except Exception:
                log.exception("reconcile_broke")
            wake.wait(PERIOD)
        self._pool.let_go()

    def look(self) -> None:
        """One pass. What lies here is listed before rows, so whatever is listed had its row before.

        What is not listed may have been made since: a box that a row names and the list lacks is asked for by its id.
        """
        now = self._clock()
        self._tenure.know_engine()
        boxes = self._watch.ours(self._installation)
        seen = self._orphans.see(boxes)
        rows = self._occupants.occupants(self._host)
        by_id = {box.container_id: box for box in boxes}
        by_attempt = {attempt_of(box): box.container_id for box in boxes}
        for run in rows:
            listed = by_id.get(run.container_id or "")
            there = listed is not None and self._tenure.vouches_for(run)
            unnamed = by_attempt.get((run.run_id, run.attempt)) if run.container_id is None else None
            found = listed if listed is not None and there else self._finder.find(run)
            self._settle(run, found, now, unnamed=unnamed)
        self._orphans.remove(seen, rows)
        self._forget(rows)
        self._lost_lookers.count()
        self._mark()
        self._tidy(now)
        self.ring()  # last: without Redis everything else is still done

    def ring(self) -> None:
        """Hang as many bells as runs may start now, and no more."""
        missing = self._hosts.bells_due() - self._bell.pending(self._host)
        if missing > 0:
            self._bell.ring_start(self._host, missing)

    def _tidy(self, now: datetime) -> None:
        """Once a minute: payloads whose time is over, and boxes that git was asked in and somebody left."""
        if self._tidied is None or (now - self._tidied).total_seconds() >= TIDY:
            self._tidied = now
            self._hosts.tidy()
            self._sweep()

    def _settle(
        self, run: Occupant, found: BoxState | Absence, now: datetime, *, unnamed: str | None
    ) -> None:
        """`unnamed` is a container of the attempt that no row names yet: its preparer has it, or left it behind."""
        self._tell_unconfirmed(run, now)
        if found is Absence.UNKNOWN:  # it keeps slot and money until its own engine speaks, or it is given up
            self._alarm("box_elsewhere", run, now, engine=run.engine_id, place=run.place)
            return
        seen = None if isinstance(found, Absence) else _as_box(found)
        departure = departure_of(run, self._hands.departure(run.worker))
        gone = departure is not Departure.UNKNOWN
        action = act(run, seen, now, dropped=self._hands.dropped(run.run_id, run.worker), gone=gone)
        match action:
            case Action.WAIT:
                return
            case Action.FINISH | Action.LOST:
                self._ring_finish(run, now)
            case Action.NEVER_STARTED:
                self._do(run, lambda: self._take_back(run, unnamed, departure))
            case Action.STOP:
                self._do(run, lambda: self._stop(run))
            case _:
                assert_never(action)

    def _take_back(self, run: Occupant, unnamed: str | None, departure: Departure) -> None:
        """A box that waits for its go is removed before the run may have another one."""
        if unnamed is not None:
            self._boxes.remove(unnamed)
        self._finisher.take_back(run, departure)

    def _ring_finish(self, run: Occupant, now: datetime) -> None:
        """Ring once, and again when it went unheard; without Redis, do it here: a bell is never the only way."""
        if self._leaving:
            self._do(run, lambda: self._finisher.finish(run.run_id))
            return
        rung = self._rung.get((run.run_id, run.attempt))
        if rung is not None and (now - rung).total_seconds() < REPEAT:
            return
        try:
            self._bell.ring_finish(self._host, run.run_id)
        except QueueUnavailable:
            self._do(run, lambda: self._finisher.finish(run.run_id))
        self._rung[run.run_id, run.attempt] = now

    def _stop(self, run: Occupant) -> None:
        """Ask, wait, kill. That it is gone is read back by the next look, not believed from here."""
        reason = run.stop_reason or words.DEADLINE
        self._runs.stopping(Claim(run.run_id, run.public_id, run.attempt, run.epoch), reason=reason)
        log.info("stopping", run=run.public_id, reason=reason)
        if run.container_id is not None:
            self._boxes.stop(run.container_id, grace=STOP_GRACE)

    def _tell_unconfirmed(self, run: Occupant, now: datetime) -> None:
        """A box that does not die keeps its slot and its money: a person must look."""
        if run.stop_asked_at is not None and stop_is_unconfirmed(run, now):
            seconds = round((now - run.stop_asked_at).total_seconds())
            self._alarm("stop_unconfirmed", run, now, seconds=seconds)

    def _alarm(self, event: str, run: Occupant, now: datetime, **more: object) -> None:
        told = self._alarmed.get((event, run.run_id))
        if told is None or (now - told).total_seconds() >= ALARM:
            self._alarmed[event, run.run_id] = now
            log.error(event, run=run.public_id, box=run.container_id and run.container_id[:12], **more)

    def _do(self, run: Occupant, work: Callable[[], None]) -> None:
        """In a thread of its own: a stop takes seconds, and one run must not hold up the others."""
        earlier = self._busy.get(run.run_id)
        if earlier is None or earlier.done():
            self._busy[run.run_id] = self._pool.submit(lambda: _logged(run.public_id, work))

    def _forget(self, rows: Sequence[Occupant]) -> None:
        live = {run.run_id for run in rows}
        self._rung = {key: at for key, at in self._rung.items() if key[0] in live}
        self._alarmed = {key: at for key, at in self._alarmed.items() if key[1] in live}
        self._busy = {key: future for key, future in self._busy.items() if key in live or not future.done()}


def watch_deaths(watch: BoxWatch, installation: str, stop: threading.Event, wake: threading.Event) -> None:
    """Wake the reconciler the moment a box dies. A missed event costs one period, nothing else."""
    while not stop.is_set():
        try:
            for _ in watch.deaths(installation):
                wake.set()
                if stop.is_set():
                    return
        except EngineUnavailable as error:
            log.warning("engine_unreachable", problem=str(error))
        except Exception:
            log.exception("watch_broke")
        stop.wait(PERIOD)


def beat(once: Callable[[], None], stop: threading.Event, period: float = 5.0) -> None:
    """Say that this worker lives, in a thread that nothing else can hold up."""
    while not stop.wait(period):
        try:
            once()
        except PidispatchError as error:
            log.warning("heartbeat_failed", problem=str(error))
        except Exception:  # a worker that went on without this thread would be taken for dead
            log.exception("heartbeat_broke")


def _as_box(box: BoxState) -> Box:
    return Box(ended=box.ended, running=box.status in {"running", "paused"})


def _logged(run: str, work: Callable[[], None]) -> None:
    try:
        work()
    except StaleEpoch as error:
        log.info("left_to_another", run=run, problem=str(error))
    except PidispatchError as error:
        log.warning("reconcile_action_failed", run=run, problem=str(error))
    except Exception:
        log.exception("reconcile_action_broke", run=run)
