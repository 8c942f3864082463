"""Workers come and go while one admission waits for a lock that somebody holds: each starts, each ends, no run pays."""

import os
import signal

import pytest
from sqlalchemy import text

from pidispatch.domain.runs.names import folder_scope
from tests.attack.liveness.processes import GENEROUS
from tests.fault.clock import Clock
from tests.fault.house import a_house
from tests.fault.stubs import VARIABLE
from tests.fault.test_wipe import NoEngine
from tests.support.patience import eventually
from tests.support.scale import scaled

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%admission_take%'"
)


@pytest.fixture
def house(short_directory):
    stubs = short_directory / "stubs"
    stubs.mkdir()
    settings = {VARIABLE: str(stubs), "PI_CONCURRENCY": "1"}
    with a_house(NoEngine(), Clock(), actors="tests.fault.stubactors", settings=settings) as house:
        yield house


@pytest.mark.timeout(900)
def test_workers_start_and_end_behind_an_admission_that_waits_for_a_lock(house):
    scope = {"key": folder_scope(str(house.root / "repos" / "locked"))}
    with house.database.transaction() as connection:
        connection.execute(text("INSERT INTO scopes (key) VALUES (:key)"), scope)
    with house.database.transaction() as connection:
        connection.execute(text("SELECT 1 FROM scopes WHERE key = :key FOR NO KEY UPDATE"), scope)
        house.submit("locked")
        assert eventually(lambda: house.value(WAITING) >= 1, within=GENEROUS)
        for _ in range(scaled(2, nightly=3)):
            os.kill(house.worker.pid, signal.SIGTERM)
            assert eventually(lambda: house.worker.poll() is not None, within=GENEROUS)
            with house.database.transaction() as other:
                other.execute(text("DELETE FROM workers"))
            house.worker.restart()
            assert eventually(lambda: house.live_workers() >= 2, within=GENEROUS)

    assert house.until(lambda: house.value("SELECT state FROM runs") == "ended", GENEROUS)

    # What a worker that has ended had asked for may be granted once the lock is gone: that is given back, and counts for
    # nothing.
    *given_back, last = house.rows("SELECT reason FROM run_attempts ORDER BY attempt")
    assert {attempt["reason"] for attempt in given_back} <= {"worker-left"}
    assert last["reason"] == "completed"
