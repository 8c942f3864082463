"""Settle calls, and go on trying while the database is away."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import structlog

from pidispatch.domain.providers.calls import CallEnd, Cost
from pidispatch.errors import DatabaseUnavailable
from pidispatch.ports import CallLedger

Answer = TypeVar("Answer")
log = structlog.get_logger(__name__)


class Settler:
    """Settles at once where it can; else keeps the end in memory and tries again from a thread of its own.

    What is still unsettled when the process ends stays `held` in the database, and the next gateway assumes it.
    """

    def __init__(self, ledger: CallLedger, *, pause: float = 1.0) -> None:
        self._ledger, self._pause = ledger, pause
        self._heard: Callable[[int], None] = lambda _run_id: None
        self._changed = threading.Condition()
        self._waiting: dict[int, tuple[int, CallEnd, Cost | None]] = {}
        self._pending: Counter[int] = Counter()
        self._thread: threading.Thread | None = None

    def tell(self, heard: Callable[[int], None]) -> None:
        """Call `heard` with the run's id after each settlement; it must not raise, nor wait."""
        self._heard = heard

    def settle(self, run_id: int, call_id: int, end: CallEnd, cost: Cost | None = None) -> None:
        with self._changed:
            self._pending[run_id] += 1
        if self._try(run_id, call_id, end, cost):
            self._done(run_id)
            return
        with self._changed:
            self._waiting[call_id] = (run_id, end, cost)
            if self._thread is None:
                self._thread = threading.Thread(target=self._again, name="settle", daemon=True)
                self._thread.start()

    def wait(self, run_id: int | None, seconds: float) -> bool:
        """True when nothing (of this run) is left to settle, waiting at most this long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._left(run_id), seconds)

    def _left(self, run_id: int | None) -> int:
        return self._pending.total() if run_id is None else self._pending[run_id]

    def _again(self) -> None:
        while True:
            time.sleep(self._pause)
            with self._changed:
                waiting = list(self._waiting.items())
                if not waiting:
                    self._thread = None
                    return
            for call_id, (run_id, end, cost) in waiting:
                if not self._try(run_id, call_id, end, cost):
                    break
                with self._changed:
                    del self._waiting[call_id]
                self._done(run_id)

    def _try(self, run_id: int, call_id: int, end: CallEnd, cost: Cost | None) -> bool:
        try:
            self._ledger.settle_call(call_id, end, cost)
        except DatabaseUnavailable as error:
            log.warning("gateway.settlement_waits", run=run_id, call=call_id, problem=error.problem)
            return False
        except Exception:
            # Not the database's absence: trying again would fail for ever, and the held row says what is missing.
            log.exception("gateway.settlement_failed", run=run_id, call=call_id)
        return True

    def _done(self, run_id: int) -> None:
        with self._changed:
            self._pending[run_id] -= 1
            if not self._pending[run_id]:
                del self._pending[run_id]
            self._changed.notify_all()
        self._heard(run_id)


def hold(
    ask: Callable[[], Answer], *, seconds: float, given_up: Callable[[], bool], pause: float = 0.25
) -> Answer:
    """Ask until the database answers, at most this long. Raises DatabaseUnavailable."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except DatabaseUnavailable:
            if given_up() or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
