"""Tell a run's box how near the run is to its caps, at once or when that changes."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from pidispatch.domain.providers.calls import Budget
from pidispatch.domain.runs.budget_warning import Fill, Landing, Limit, landing
from pidispatch.errors import DatabaseUnavailable

LONGEST_WAIT = 55.0  # seconds; the box's runner waits a little longer than it asks for
MOST_WAITING = 4  # a box has one runner; more than these are answered at once
READ_AGAIN = 1.0  # seconds between two looks at the database, however many ask


class BudgetWatch:
    """One run's budget. `read` is asked at most once a second, however many ask, and by nobody while nothing changes.

    `settled` is called after each settlement of the run, `close` when its door closes: both wake who waits.
    """

    def __init__(
        self, read: Callable[[], Budget | None], *, again: float = READ_AGAIN, most: int = MOST_WAITING
    ) -> None:
        self._read, self._again, self._most = read, again, most
        self._changed = threading.Condition()
        self._settlements = 0
        self._closed = False
        self._waiting = 0
        self._reading = threading.Lock()
        self._kept = _Look(-1, None, None, -math.inf)

    def settled(self) -> None:
        with self._changed:
            self._settlements += 1
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def ask(self, *, wait: float, told: bool) -> Budget | None:
        """What is used now; with `wait` not before landing is due, unless the caller was `told` of that already.

        After `wait` seconds it answers in any case. Raises DatabaseUnavailable.
        """
        now = time.monotonic()
        with self._changed:
            self._waiting += 1
            crowded = self._waiting > self._most
        try:
            return self._ask(now if crowded else now + min(max(wait, 0.0), LONGEST_WAIT), told=told)
        finally:
            with self._changed:
                self._waiting -= 1

    def _ask(self, end: float, *, told: bool) -> Budget | None:
        while True:
            look = self._look()
            if look.problem is not None:
                raise look.problem
            budget = look.budget
            if budget is None or (landing_of(budget).due and not told):
                return budget
            if not self._wait_for_more(look, end):
                return budget

    def _wait_for_more(self, look: "_Look", end: float) -> bool:
        """Wait for a settlement that `look` has not seen; False when there is no point in waiting on."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._settlements != look.settlements, end - time.monotonic()
            )
            if self._closed or self._settlements == look.settlements:
                return False
            # What settled a moment after a look is looked at together with what settles until the next one.
            pause = min(look.at + self._again, end) - time.monotonic()
            self._changed.wait_for(lambda: self._closed, max(pause, 0.0))
            return not self._closed and time.monotonic() < end

    def _look(self) -> "_Look":
        with self._reading:
            if time.monotonic() >= self._kept.at + self._again:
                with self._changed:
                    settlements = self._settlements
                try:
                    budget, problem = self._read(), None
                except DatabaseUnavailable as error:
                    budget, problem = None, error
                self._kept = _Look(settlements, budget, problem, time.monotonic())
            return self._kept


@dataclass(frozen=True, slots=True)
class _Look:
    """What the database said, after how many settlements, and when (monotonic)."""

    settlements: int
    budget: Budget | None
    problem: DatabaseUnavailable | None
    at: float


def landing_of(budget: Budget) -> Landing:
    """Only what has settled counts: a call under way holds far more than it will come to."""
    return landing(
        (
            Fill(Limit.COST, budget.micros - budget.held_micros, budget.cap_micros),
            Fill(Limit.TOKENS, budget.tokens - budget.held_tokens, budget.cap_tokens),
            Fill(Limit.TURNS, budget.turns, budget.cap_turns),
        )
    )


def document(budget: Budget) -> Mapping[str, object]:
    """What a box is told. Micro-dollars, tokens, turns; a cap of null is none."""
    near = landing_of(budget)
    return {
        "v": 1,
        "share": round(near.share, 4),
        "of": None if near.of is None else str(near.of),
        "landing": near.due,
        "micros": budget.micros - budget.held_micros,
        "cap_micros": budget.cap_micros,
        "tokens": budget.tokens - budget.held_tokens,
        "cap_tokens": budget.cap_tokens,
        "turns": budget.turns,
        "cap_turns": budget.cap_turns,
    }


def asked(query: str) -> tuple[float, bool]:
    """How long a question may wait, in seconds, and whether it was told before. What is malformed asks for neither."""
    fields = parse_qs(query[:200])
    wait = fields.get("wait", ["0"])[0]
    seconds = float(wait) if wait.isascii() and wait.isdecimal() and len(wait) <= 6 else 0.0
    return seconds, fields.get("seen", ["0"])[0] == "1"
