"""A held run of a whole installation: it outlives a restart, its program is asked, and it starts."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.installation import KEY, eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]

ADD_PROFILE = """
UPDATE run_waits SET conditions = conditions || '[{"profile": "ready"}]', next_check_at = now()
WHERE run_id = (SELECT id FROM runs WHERE public_id = :id) RETURNING run_id
"""
HELD = "SELECT r.state, r.admitted_at, w.* FROM runs r JOIN run_waits w ON w.run_id = r.id WHERE r.public_id = :id"


def test_a_held_run_outlives_a_restart_is_asked_after_and_starts(fresh):
    program = fresh.root / "ready"
    program.write_text(f'#!/bin/sh\necho "$1" >> {fresh.root}/asked\nenv > {fresh.root}/env\nexit 0\n')
    program.chmod(0o755)
    fresh.environment["PI_WAIT_PROFILES"] = f"ready:{program}"
    fresh.start()
    folder = fresh.repository()
    instant = (datetime.now(UTC) + timedelta(seconds=12)).replace(microsecond=0)

    answer = fresh.run(folder, "--after", instant.isoformat(), wait=False)
    assert (answer["state"], answer["cause"]) == ("held", "wait")
    fresh.one(ADD_PROFILE, id=answer["public_id"])
    assert fresh.stop() == 0
    fresh.lines.clear()
    fresh.start()

    eventually(lambda: fresh.state(answer["public_id"]) == "ended", "the held run ends", seconds=90)

    assert fresh.record(answer["public_id"])["outcome"] == "completed"
    found = fresh.one(HELD, id=answer["public_id"])
    assert found["admitted_at"] >= instant - timedelta(seconds=1)
    assert (found["checks"], found["last_answer"]) == (1, "go")
    assert (fresh.root / "asked").read_text() == f"local:{folder.name}\n"
    assert KEY not in (fresh.root / "env").read_text()
    told = json.loads(fresh.pidispatch("explain", answer["public_id"], "--json").stdout)
    assert told["wait"]["last_profile"] == "ready"
