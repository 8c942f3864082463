"""Look after the runs that are held for something named, in a thread beside the reconciler."""

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from functools import partial
from typing import assert_never

import structlog

from pidispatch.domain.waiting import (
    Answer,
    AskPrograms,
    Bounds,
    GiveUp,
    HeldRun,
    Hold,
    Start,
    Step,
    answer_of,
    broken_off,
    first_step,
    next_step,
)
from pidispatch.errors import PidispatchError, QueueUnavailable
from pidispatch.ports import Bell, Clock, WaitChecks, Waits
from pidispatch.upkeep.pool import DaemonPool

log = structlog.get_logger(__name__)

PERIOD = 1.0  # seconds between looks; an instant that comes sooner is not slept through
LOOKS = 200  # runs looked at in one go, so that a stop is heard
LATE = 55.0  # seconds that a check may be overdue before somebody should add a slot
TELL_AGAIN = 600.0
LEAVING = 0.3


class WaitKeeper:
    """Any number of processes may run it: each look is claimed, and its outcome is written once.

    `programs` are the check programs by profile; `wake` makes it look now.
    """

    def __init__(
        self,
        *,
        host: str,
        waits: Waits,
        checks: WaitChecks,
        programs: Mapping[str, str],
        bounds: Bounds,
        slots: int,
        bell: Bell,
        clock: Clock,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._host = host
        self._waits = waits
        self._checks = checks
        self._programs = programs
        self._bounds = bounds
        self._slots = slots
        self._bell = bell
        self._clock = clock
        self._jitter = jitter
        self._pool = DaemonPool(slots, "wait-check")
        self._busy: set[Future[None]] = set()
        self.wake = threading.Event()
        self._told_late: float | None = None

    def run(self, stop: threading.Event) -> None:
        """Look every second, at the instant something is due, and when a check has ended; until `stop` is set."""
        while True:
            self.wake.clear()  # before `stop` is looked at, which is set before this
            if stop.is_set():
                break
            pause = PERIOD
            try:
                pause = self.look()
            except PidispatchError as error:
                log.warning("waits_not_looked_at", problem=str(error))
            except Exception:
                log.exception("waits_broke")
            self.wake.wait(pause)
        self._checks.break_off()
        self._pool.let_go()
        wait(self._busy, LEAVING)

    def look(self) -> float:
        """One pass over what is due; returns the seconds to sleep. Checks go on in threads of their own."""
        until = self._waits.seconds_to_next()
        if until is not None and until <= 0:
            self._take_due()
            until = self._waits.seconds_to_next()
        if until is None:
            return PERIOD
        self._tell_late(-until)
        return min(PERIOD, until) if until > 0 else PERIOD

    def _take_due(self) -> None:
        for _ in range(LOOKS):
            held = self._waits.claim(asking=False, slots=0)
            if held is None:
                break
            self._decide(held)
        self._busy = {future for future in self._busy if not future.done()}
        while len(self._busy) < self._slots:
            held = self._waits.claim(asking=True, slots=self._slots)
            if held is None:
                break
            self._busy.add(self._pool.submit(partial(self._check, held)))

    def settled(self, seconds: float) -> bool:
        """Whether every check that was begun has ended within so long."""
        return not wait(self._busy, seconds).not_done

    def _decide(self, held: HeldRun) -> None:
        step = first_step(held, profiles=self._programs, bounds=self._bounds)
        if isinstance(step, AskPrograms):
            step = Hold(held.now, held.progress, asking=True)
        self._settle(held, step)

    def _check(self, held: HeldRun) -> None:
        """In a thread of its own; what fails here leaves the claim to run out, and the run is asked after again."""
        try:
            step = first_step(held, profiles=self._programs, bounds=self._bounds)
            self._settle(held, self._ask(held, step.profiles) if isinstance(step, AskPrograms) else step)
        except PidispatchError as error:
            log.warning("wait_check_lost", run=held.public_id, problem=str(error))
        except Exception:
            log.exception("wait_check_broke", run=held.public_id)
        finally:
            self.wake.set()

    def _ask(self, held: HeldRun, profiles: tuple[str, ...]) -> Step:
        """In the order they were written, until one does not say go."""
        profile, answer = profiles[0], Answer.FAULT
        for profile in profiles:
            end = self._checks.ask(self._programs[profile], held.target)
            if end.broken_off:
                return broken_off(held.progress, self._clock())
            answer = answer_of(end.exit_code)
            if answer is Answer.FAULT:
                log.warning(
                    "wait_check_gave_no_answer",
                    run=held.public_id,
                    profile=profile,
                    exit_code=end.exit_code,
                    problem=end.problem,
                    output_bytes=end.output_bytes,
                )
            if answer is not Answer.GO:
                break
        return next_step(
            held.progress, profile, answer, bounds=self._bounds, now=self._clock(), jitter=self._jitter()
        )

    def _settle(self, held: HeldRun, step: Step) -> None:
        written = self._waits.settle(held, step)
        match written:
            case None:
                log.info("left_to_another", run=held.public_id)
            case Start(progress):
                log.info("wait_cleared", run=held.public_id, checks=progress.checks)
                self._ring(held)
            case Hold(until, progress):
                log.info("waits_on", run=held.public_id, until=until.isoformat(), checks=progress.checks)
            case GiveUp(reason, progress):
                log.info("wait_given_up", run=held.public_id, reason=reason, checks=progress.checks)
            case _:
                assert_never(written)

    def _ring(self, held: HeldRun) -> None:
        try:
            self._bell.ring_start(held.pinned_host or self._host)
        except QueueUnavailable as error:  # the row is committed: the reconciler rings for it
            log.warning("bell_not_rung", run=held.public_id, problem=str(error))

    def _tell_late(self, seconds: float) -> None:
        now = time.monotonic()
        if seconds > LATE and (self._told_late is None or now - self._told_late > TELL_AGAIN):
            self._told_late = now
            log.warning("wait_capacity_exceeded", overdue_seconds=round(seconds), slots=self._slots)
