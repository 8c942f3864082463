"""Redis loses everything while hundreds wait: nobody waits long for that, and nothing is lost or done twice."""

import time

import pytest

from tests.fault.clock import Clock
from tests.fault.engine import Engine
from tests.fault.faults import FAULTS
from tests.fault.house import House, a_house
from tests.fault.stubs import VARIABLE
from tests.fault.witness import left_behind
from tests.store.builders import assert_ledger_is_exact
from tests.storm.boxes import intervals
from tests.support.patience import slowness
from tests.support.scale import scaled

QUEUED, RUNNING = scaled(120, nightly=500), 4
LONGEST_GAP = 5.0  # seconds between a slot that is free and the next start
PATIENCE = 120.0


class NoEngine(Engine):
    """Nobody makes a container."""

    def containers(self, installation):
        return []

    def remove_all(self, installation):
        pass

    def follow(self, installation, file):
        pass


@pytest.fixture
def house(short_directory):
    stubs = short_directory / "stubs"
    stubs.mkdir()
    settings = {VARIABLE: str(stubs), "PI_CONCURRENCY": str(RUNNING)}
    with a_house(NoEngine(), Clock(), actors="tests.fault.stubactors", settings=settings) as house:
        house.stubs = stubs
        yield house


def started(house: House) -> int:
    logs = house.stubs / "logs"
    return sum("start" in log.read_text() for log in logs.iterdir()) if logs.exists() else 0


def count(house: House, states: str) -> int:
    return int(house.value(f"SELECT count(*) FROM runs WHERE state IN ({states})"))


def let_go(house: House) -> None:
    """Each byte ends one of the boxes that wait at the pipe."""
    (house.stubs / "hold").unlink()
    with (house.stubs / "never").open("r+b", buffering=0) as pipe:
        pipe.write(b"\n" * RUNNING)


def longest_gap(house: House) -> float:
    """All slots are always taken, so the box that ended k-th makes room for the one that started k+4-th."""
    spans = intervals(house.stubs).values()
    starts, ends = sorted(start for start, _ in spans), sorted(end for _, end in spans)
    return max(start - end for start, end in zip(starts[RUNNING:], ends, strict=False))


def test_a_wiped_redis_with_hundreds_waiting_holds_up_nobody_for_five_seconds(house):
    (house.stubs / "hold").touch()
    for number in range(QUEUED + RUNNING):
        house.submit(f"wipe-{number:03}")
    assert house.until(lambda: started(house) == RUNNING, 30)
    assert count(house, "'queued'") == QUEUED
    began = time.monotonic()

    FAULTS["redis-wiped"]().strike(house, 0)
    let_go(house)
    assert house.until(lambda: count(house, "'ended'") == QUEUED + RUNNING, PATIENCE)

    took, gap = time.monotonic() - began, longest_gap(house)
    print(f"{QUEUED + RUNNING} runs over a wiped Redis in {took:.1f} s, longest gap {gap:.2f} s")
    assert gap < LONGEST_GAP * slowness()
    assert_each_once(house)


def assert_each_once(house: House) -> None:
    rows = house.rows(
        "SELECT r.outcome, r.reason, r.attempt, (SELECT count(*) FROM run_attempts a WHERE a.run_id = r.id"
        " AND a.go_at IS NOT NULL) AS goes FROM runs r"
    )
    assert {(row["outcome"], row["reason"], row["attempt"], row["goes"]) for row in rows} == {
        ("completed", "completed", 1, 1)
    }
    assert len(intervals(house.stubs)) == QUEUED + RUNNING  # each box's own log: it ran once, to its end
    assert_ledger_is_exact(house.database)
    assert house.until(lambda: not left_behind(house), 30), left_behind(house)
