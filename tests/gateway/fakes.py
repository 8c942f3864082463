"""Runs and a ledger kept in memory, with a switch that takes the database away."""

import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pidispatch.domain.providers.calls import (
    NOTHING_KNOWN,
    Budget,
    CallEnd,
    CallOpened,
    CallRefused,
    Cost,
    Ticket,
    Worst,
)
from pidispatch.domain.providers.rates import CostClass
from pidispatch.errors import DatabaseUnavailable


class Switch:
    """Whether the fake database answers."""

    def __init__(self) -> None:
        self.away = False
        self.lock = threading.RLock()

    def check(self) -> None:
        if self.away:
            raise DatabaseUnavailable("switched off by the test")


@dataclass
class FakeCaps:
    """What a run may use; None is no cap."""

    allowed_models: Sequence[str] | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    cost_cap_micros: int | None = None


@dataclass
class FakeRun:
    ticket: Ticket
    container: str
    live: bool = True
    go_given: bool = False
    preparing: bool = False  # not recorded yet: it cannot have its go
    caps: FakeCaps = field(default_factory=FakeCaps)
    stopped: bool = False
    refused: list[str] = field(default_factory=list)


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

    def is_preparing(self, run_id: int, attempt: int) -> bool:
        self.switch.check()
        run = self.runs.get(run_id)
        return run is not None and run.live and run.preparing and run.ticket.attempt == attempt

    def give_go(self, run_id: int, attempt: int, container: str) -> bool:
        self.switch.check()
        with self.switch.lock:
            run = self.runs.get(run_id)
            if run is None or not run.live or run.preparing or run.go_given or run.ticket.attempt != attempt:
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


class FakeStops:
    """The runs whose calls an operator stopped, as `FakeRun.stopped` says."""

    def __init__(self, tickets: FakeTickets) -> None:
        self.tickets = tickets

    def stopped(self, host: str) -> Collection[int]:
        self.tickets.switch.check()
        return [run_id for run_id, run in self.tickets.runs.items() if run.live and run.stopped]


@dataclass
class FakeCall:
    call_id: int
    run_id: int
    attempt: int
    provider: str
    model: str
    api: str
    opened_at: datetime
    held_micros: int | None = None
    held_tokens: int = 0
    lowered_by: str | None = None
    state: str = "held"
    end: CallEnd | None = None
    cost: Cost | None = None

    @property
    def micros(self) -> int | None:
        """What it counts now."""
        known = None if self.cost is None else self.cost.micros
        if self.state == "held" or known is None:
            return self.held_micros
        measured = self.state == "settled" and self.end is not None and self.end.measured
        return known if measured or self.held_micros is None else min(known, self.held_micros)

    @property
    def tokens(self) -> int:
        if self.end is None:
            return self.held_tokens
        return self.end.tokens_in + self.end.tokens_out + self.end.cache_read + self.end.cache_write

    @property
    def is_turn(self) -> bool:
        """It was answered, or may have been, or may yet be."""
        ended = self.end is not None and self.end.stop_reason in {"stop", "tool_use", "length"}
        return self.state != "settled" or ended or self.tokens > 0


class FakeLedger:
    def __init__(self, switch: Switch, tickets: FakeTickets) -> None:
        self.switch, self.tickets = switch, tickets
        self.calls: list[FakeCall] = []
        self.budgets: dict[int, Budget] = {}
        self.reads = 0
        self.adjusted: list[int] = []

    def open_call(
        self, run_id: int, attempt: int, *, provider: str, model: str, api: str, worst: Worst = NOTHING_KNOWN
    ) -> CallOpened | CallRefused:
        self.switch.check()
        with self.switch.lock:
            run = self.tickets.runs.get(run_id)
            if run is None or not run.live or not run.go_given or run.ticket.attempt != attempt:
                return CallRefused("closed")
            call = FakeCall(len(self.calls) + 1, run_id, attempt, provider, model, api, datetime.now(UTC))
            refused = self._refusal(run, call, worst)
            if refused is not None:
                run.refused.append(refused)
                return CallRefused(refused)
            self.calls.append(call)
            caps = run.caps
            return CallOpened(
                call.call_id,
                None if caps.cost_cap_micros is None else call.held_micros,
                None if caps.max_tokens is None else call.held_tokens,
            )

    def _refusal(self, run: FakeRun, call: FakeCall, worst: Worst) -> str | None:
        """Why not; None: `call` holds what it may use."""
        used = self._budget(call.run_id, run)
        allowed = run.caps.allowed_models
        if run.stopped:
            return "stopped"
        if allowed is not None and worst.others is None:
            return "model-policy-unenforceable"
        named = {f"{call.provider}/{model}".lower() for model in (call.model, *(worst.others or ()))}
        if allowed is not None and not named <= {model.lower() for model in allowed}:
            return "model-not-allowed"
        if used.cap_turns is not None and self._turns(call.run_id) >= used.cap_turns:
            return "turn-cap"
        call.held_micros, call.held_tokens = worst.micros, worst.tokens
        if used.cap_tokens is not None:
            left = max(used.cap_tokens - used.tokens, 0)
            if worst.tokens > left and worst.least_tokens > left:
                return "token-cap"
            if worst.tokens > left:
                call.held_tokens, call.lowered_by = left, "token-cap"
        if used.cap_micros is not None:
            if worst.micros is None:
                return "cost-cap-unenforceable"
            least = worst.micros if worst.least_micros is None else worst.least_micros
            left = max(used.cap_micros - used.micros, 0)
            if worst.micros > left and least > left:
                return "cost-cap"
            if worst.micros > left:
                call.held_micros, call.lowered_by = left, "cost-cap"
        return None

    def _turns(self, run_id: int) -> int:
        return sum(call.is_turn for call in self.calls if call.run_id == run_id)

    def budget(self, run_id: int) -> Budget | None:
        self.switch.check()
        self.reads += 1
        run = self.tickets.runs.get(run_id)
        return None if run is None else self.budgets.get(run_id) or self._budget(run_id, run)

    def _budget(self, run_id: int, run: FakeRun) -> Budget:
        calls = [call for call in self.calls if call.run_id == run_id]
        turns = sum(call.is_turn and call.state != "held" for call in calls)
        micros, tokens = sum(call.micros or 0 for call in calls), sum(call.tokens for call in calls)
        caps = run.caps
        held = [call for call in calls if call.state == "held"]
        return Budget(
            micros,
            caps.cost_cap_micros,
            tokens,
            caps.max_tokens,
            turns,
            caps.max_turns,
            held_micros=sum(call.held_micros or 0 for call in held),
            held_tokens=sum(call.held_tokens for call in held),
        )

    def settle_call(self, call_id: int, end: CallEnd, cost: Cost | None = None) -> None:
        self.switch.check()
        with self.switch.lock:
            call = self.calls[call_id - 1]
            if call.end is not None:
                return
            if call.state == "assumed":
                self.adjusted.append(call_id)
            call.state, call.end, call.cost = "settled" if end.measured else "assumed", end, cost

    def assume_open(self, host: str, opened_before: datetime) -> int:
        self.switch.check()
        with self.switch.lock:
            open_calls = [
                call for call in self.calls if call.state == "held" and call.opened_at < opened_before
            ]
            for call in open_calls:
                call.state, call.cost = "assumed", Cost(call.held_micros, CostClass.ASSUMED, None)
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
