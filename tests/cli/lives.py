"""Lead a run through its life as workers and a gateway would, without any of them."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.providers.calls import CallEnd
from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Claim, Outcome, Result
from pidispatch.store.database import Database
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import a_host, try_next, value
from tests.support.calls import opened
from tests.support.patience import LONGER

CONTAINER = "c0ffee" * 10 + "c0de"
DONE = End(Outcome.COMPLETED, "completed", result=Result.DONE_UNVERIFIED)
FAILED = End(Outcome.FAILED, "infra", why="agent-died")


def begin(database: Database, container: str = CONTAINER) -> Claim:
    """The next due run gets its slot, its box and its go."""
    a_host(database)
    found = try_next(database)
    assert found is not None
    assert isinstance(found[1], Admitted), found
    runs = Runs(database)
    claim = runs.boxed(runs.preparing(found[1].claim).claim, container_id=container, name=f"box-{found[0]}")
    assert PostgresTickets(database, timeout=600).give_go(claim.run_id, claim.attempt, container[:12])
    return runs.facts(claim.run_id).claim


def call(database: Database, claim: Claim, *, tokens_in: int = 100, tokens_out: int = 10) -> None:
    ledger = PostgresCallLedger(database)
    call_id = opened(
        ledger, claim.run_id, claim.attempt, provider="scripted", model="happy", api="openai-completions"
    )
    ledger.settle_call(call_id, CallEnd(200, "stop", tokens_in=tokens_in, tokens_out=tokens_out))


def end(database: Database, claim: Claim, verdict: End = DONE, code: int | None = 0) -> None:
    claim = Runs(database).finishing(Runs(database).facts(claim.run_id).claim)
    assert Endings(database).end(claim, verdict, BoxEnd(exit_code=code))


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do `act` beside the test; what it raises is raised at the end."""
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(act)
        yield
        done.result(30 * LONGER)


def until_asked(database: Database, within: float = 20) -> None:
    """Return when a run waits in the queue."""
    stop = time.monotonic() + LONGER * within
    while not value(database, "SELECT count(*) FROM runs WHERE state = 'queued'"):
        assert time.monotonic() < stop
        time.sleep(0.05)
