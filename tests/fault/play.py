"""Play one cell: bring a run to the step, strike, and watch until everything is recovered or declared."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from pidispatch.errors import PidispatchError
from tests.fault.cells import Cell
from tests.fault.faults import FAULTS, Fault
from tests.fault.house import House
from tests.fault.witness import left_behind, problems

PROMISE = 30.0  # seconds from the moment Postgres and Docker answer
PATIENCE = 600.0
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Result:
    """`seconds` from the fault (or from Postgres and Docker answering, or from SIGCONT) to clean; None: never."""

    cell: str
    ended: str
    attempts: int
    seconds: float | None
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.problems


def play(house: House, cell: Cell) -> Result:
    """Never raises for what the product did wrong: that is a result."""
    fault = FAULTS[cell.victim]()
    name = f"{next(_numbers)}-{cell.victim}-{cell.step}"
    if not house.until(house.is_well, 60):
        return Result(cell.name, "", 0, None, ("the house was not well before",))
    run_id, pid = _bring(house, cell.step, name)
    if pid is None:
        house.let_go(cell.step)
        return Result(cell.name, "", 0, None, (f"the step {cell.step} was not reached",))
    fault.strike(house, pid)
    seconds = _watch(house, run_id, fault, cell.step)
    return _judge(house, cell, run_id, seconds)


def _bring(house: House, step: str, name: str) -> tuple[int, int | None]:
    """The run, and the worker process that has it in hand (or any worker process, where none has)."""
    house.arm(step)
    if step == "first-call-in-flight":
        house.pace.hold()
    run_id = house.submit(name)
    if step == "queued-committed":
        return run_id, house.worker_processes()[0].pid
    reached: Callable[[], bool] = lambda: house.reached(step) is not None  # noqa: E731
    if step == "first-call-in-flight":
        reached = house.pace.reached.is_set
    if not house.until(reached, 60):
        return run_id, None
    return run_id, _worker_of(house, run_id)


def _worker_of(house: House, run_id: int) -> int:
    pids = [process.pid for process in house.worker_processes()]
    standing = [pid for pid in pids if any(house.failpoints.glob(f"reached.*.{pid}"))]
    worker = str(house.value("SELECT coalesce(worker, '') FROM runs WHERE id = :id", id=run_id))
    launched = [pid for pid in pids if f":{pid}:" in worker]
    return (standing or launched or pids)[0]


def _watch(house: House, run_id: int, fault: Fault, step: str) -> float | None:
    """Let the held process go a moment after the strike; return the seconds of the promise that were used."""
    struck = time.monotonic()
    counted = struck
    released = False
    while time.monotonic() < struck + fault.lasts + PATIENCE:
        house.tick()
        fault.tick()
        if not released and time.monotonic() > struck + 0.3:
            house.let_go(step)
            released = True
        if not house.answering() or (fault.suspends and not fault.is_over):
            counted = time.monotonic()
        elif _is_over(house, run_id):
            seconds = time.monotonic() - counted
            house.until(lambda: _over(fault), fault.lasts + 1)
            return seconds
        time.sleep(0.1)
    fault.end()
    return None


def _over(fault: Fault) -> bool:
    fault.tick()
    return fault.is_over


def _is_over(house: House, run_id: int) -> bool:
    try:
        state = house.value("SELECT state FROM runs WHERE id = :id", id=run_id)
        return state == "ended" and not left_behind(house)
    except (PidispatchError, AssertionError):
        return False


def _judge(house: House, cell: Cell, run_id: int, seconds: float | None) -> Result:
    run = house.rows("SELECT * FROM runs WHERE id = :id", id=run_id)[0]
    found = []
    if seconds is None:
        found.append(f"not over after {PATIENCE:g} s: {run['state']}, left: {'; '.join(left_behind(house))}")
    else:
        found += problems(house, run_id, cell.endings)
        if seconds > PROMISE:
            found.append(f"it took {seconds:.1f} s")
        if not house.until(house.is_well, 60):
            found.append("the house did not get well")
        found += [f"left behind afterwards: {each}" for each in left_behind(house)]
        epoch = house.value("SELECT epoch FROM runs WHERE id = :id", id=run_id)
        if epoch != run["epoch"]:
            found.append("the run was written after its end")
    word = run["reason"] or run["outcome"] or run["state"]
    return Result(cell.name, word, run["attempt"], seconds, tuple(found))
