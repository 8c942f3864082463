"""Runs and a ledger kept in memory, with a switch that takes the database away."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pidispatch.errors import DatabaseUnavailable
from pidispatch.ports import NOTHING_KNOWN, Budget, CallEnd, CallOpened, CallRefused, Cost, Ticket, Worst

NO_CAPS = Budget(micros=0, cap_micros=None, tokens=0, cap_tokens=None, turns=0, cap_turns=None)


class Switch:
    """Whether the fake database answers."""

    def __init__(self) -> None:
        self.away = False
        self.lock = threading.RLock()

    def check(self) -> None:
        if self.away:
            raise DatabaseUnavailable("switched off by the test")


@dataclass
class FakeRun:
    ticket: Ticket
    container: str
    live: bool = True
    go_given: bool = False


class FakeTickets:
    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self.runs: dict[int, FakeRun] = {}
        self.reports: dict[tuple[int, int], tuple[dict[str, Any], bool]] = {}

    def add(self, ticket: Ticket, container: str) -> None:
        self.runs[ticket.run_id] = FakeRun(ticket, container)

    def occupying(self, host: str) -> Sequence[Ticket]:
        self.switch.check()
        return [run.ticket for run in self.runs.values() if run.live]

    def ticket(self, run_id: int) -> Ticket | None:
        self.switch.check()
        run = self.runs.get(run_id)
        return run.ticket if run is not None and run.live else None

    def give_go(self, run_id: int, attempt: int, container: str) -> bool:
        self.switch.check()
        with self.switch.lock:
            run = self.runs.get(run_id)
            if run is None or not run.live or run.go_given or run.ticket.attempt != attempt:
                return False
            if len(container) < 12 or not run.container.startswith(container):
                return False
            run.go_given = True
            return True

    def keep_report(self, run_id: int, attempt: int, report: dict[str, Any], *, verified: bool) -> None:
        self.switch.check()
        with self.switch.lock:
            kept = self.reports.get((run_id, attempt))
            if kept is None or not kept[1]:
                self.reports[run_id, attempt] = (report, verified)


@dataclass
class FakeCall:
    call_id: int
    run_id: int
    attempt: int
    provider: str
    model: str
    api: str
    opened_at: datetime
    state: str = "held"
    end: CallEnd | None = None
    cost: Cost | None = None


class FakeLedger:
    def __init__(self, switch: Switch, tickets: FakeTickets) -> None:
        self.switch, self.tickets = switch, tickets
        self.calls: list[FakeCall] = []
        self.budgets: dict[int, Budget] = {}
        self.reads = 0

    def open_call(
        self, run_id: int, attempt: int, *, provider: str, model: str, api: str, worst: Worst = NOTHING_KNOWN
    ) -> CallOpened | CallRefused:
        self.switch.check()
        with self.switch.lock:
            run = self.tickets.runs.get(run_id)
            if run is None or not run.live or not run.go_given or run.ticket.attempt != attempt:
                return CallRefused("closed")
            call = FakeCall(len(self.calls) + 1, run_id, attempt, provider, model, api, datetime.now(UTC))
            self.calls.append(call)
            return CallOpened(call.call_id)

    def settle_call(self, call_id: int, end: CallEnd, cost: Cost | None = None) -> None:
        self.switch.check()
        with self.switch.lock:
            call = self.calls[call_id - 1]
            if call.state == "held":
                call.state, call.end, call.cost = "settled", end, cost

    def budget(self, run_id: int) -> Budget | None:
        self.switch.check()
        self.reads += 1
        return self.budgets.get(run_id, NO_CAPS) if run_id in self.tickets.runs else None

    def assume_open(self, host: str, opened_before: datetime) -> int:
        self.switch.check()
        with self.switch.lock:
            open_calls = [
                call for call in self.calls if call.state == "held" and call.opened_at < opened_before
            ]
            for call in open_calls:
                call.state = "assumed"
            return len(open_calls)

    def settled(self, count: int = 1, seconds: float = 10.0) -> list[CallEnd]:
        """The ends of the settled calls, once there are this many."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ends = [call.end for call in self.calls if call.end is not None]
            if len(ends) >= count:
                return ends
            time.sleep(0.005)
        raise AssertionError(f"only these calls were settled: {self.calls}")
