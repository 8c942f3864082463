"""One process of the money storm: runs with a dollar cap each, whose calls hold, settle, get lost or come late."""

import os
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.limits.windows import EVERYTHING, Cap, Period, Unit
from pidispatch.domain.providers.calls import CallEnd, CallOpened, CallRefused, Worst
from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Claim, Outcome
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.database import Database
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import HOST, ready_for
from tests.support.calls import cost

DAY, RUN = 1_000_000, 100_000  # micro-dollars
CAPS = (Cap(EVERYTHING, Unit.MICROS, Period.DAY, cap=DAY, amount=RUN),)
DEAREST = 40_000
LONGEST = 0.05  # seconds of a call
APPLICATION = "spender"
PROCESSES, RUNS_AT_ONCE, CALLERS = 5, 2, 2
TOGETHER = 5.0  # seconds that a run waits at most for the others to be at work too
AT_WORK = text("""
SELECT count(*) FILTER (WHERE state = 'running') >= least(:most, count(*) FILTER (WHERE state <> 'ended')) FROM runs
""")


@dataclass
class Spender:
    """Admits runs and lives them, one after the other."""

    database: Database
    name: str
    late: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self):
        self.admissions = Admissions(self.database, host=HOST, worker=self.name)
        self.runs, self.endings = Runs(self.database), Endings(self.database)
        self.tickets = PostgresTickets(self.database, timeout=600)
        self.ledger = PostgresCallLedger(self.database)

    def live_one(self) -> bool:
        """False when nothing waits."""
        waiting = self.admissions.next_due([])
        if waiting is None:
            return False
        answer = self.admissions.admit(
            waiting, ready_for(self.database, waiting.run_id, CAPS, cost_cap_micros=RUN)
        )
        if isinstance(answer, Admitted):
            self.live(answer.claim)
        return True

    def live(self, claim: Claim) -> None:
        job = self.runs.preparing(claim)
        container = f"{claim.run_id:08x}{claim.attempt:08x}" * 4
        claim = self.runs.boxed(job.claim, container_id=container, name=container)
        assert self.tickets.give_go(claim.run_id, claim.attempt, container)
        self.wait_for_the_others()
        callers = [
            threading.Thread(target=self.call_away, args=(claim.run_id, claim.attempt))
            for _ in range(CALLERS)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert finish(self, claim.run_id, again=claim.attempt == 1 and random.random() < 0.2)
        while self.late:
            self.settle(*self.late.pop())

    def wait_for_the_others(self) -> None:
        """So that as many runs as may spend do so at the same time, however slow the machine is."""
        deadline = time.monotonic() + TOGETHER
        while time.monotonic() < deadline:
            with self.database.transaction() as connection:
                if connection.execute(AT_WORK, {"most": PROCESSES * RUNS_AT_ONCE}).scalar_one():
                    return
            time.sleep(0.02)

    def call_away(self, run_id: int, attempt: int) -> None:
        for _ in range(random.randint(3, 12)):
            most = random.randint(1, DEAREST)
            worst = Worst(most, random.randint(1, most), 1, 1)
            answer = self.ledger.open_call(run_id, attempt, provider="p", model="m", api="a", worst=worst)
            if isinstance(answer, CallRefused):
                assert answer.reason == "cost-cap", answer
                continue
            assert isinstance(answer, CallOpened)
            assert answer.micros is not None
            real = random.randint(0, answer.micros)
            time.sleep(random.uniform(0, LONGEST))
            match random.random():
                case luck if luck < 0.1:
                    self.late.append((answer.call_id, real))  # first assumed, then known
                case luck if luck < 0.2:
                    pass  # lost for good
                case _:
                    self.settle(answer.call_id, real)

    def settle(self, call_id: int, micros: int) -> None:
        self.ledger.settle_call(call_id, CallEnd(200, "stop", tokens_out=1), cost(micros))


def finish(spender: Any, run_id: int, *, again: bool = False) -> bool:
    """As the finisher does: what is open is assumed, then the record is written. False: a call was opened between."""
    claim = spender.runs.finishing(spender.runs.facts(run_id).claim)
    spender.tickets.assume_calls(run_id)
    if again:
        return spender.endings.again(claim, Again("provider-failed", 0), BoxEnd(1))
    return spender.endings.end(claim, End(Outcome.COMPLETED, "completed"), BoxEnd(0))


def work(url: str, name: str) -> None:
    spender = Spender(Database(url, pool_size=4, application=APPLICATION), name)
    while True:
        if not spender.live_one():
            time.sleep(0.02)


def main(url: str, name: str) -> None:
    threads = [threading.Thread(target=work, args=(url, f"{name}:{n}")) for n in range(RUNS_AT_ONCE)]
    told = threading.excepthook
    threading.excepthook = lambda fault: (told(fault), os._exit(1))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
