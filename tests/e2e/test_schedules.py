"""A schedule on a real installation: it starts runs, an edit holds within a second, nothing of it stays behind."""

import json

import pytest

from tests.e2e.installation import eventually

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("e2e"),
]

SLOTS = "SELECT count(*) AS n FROM schedule_slots"


def test_a_schedule_starts_a_run_and_a_removed_one_starts_no_more(fresh):
    folder = fresh.repository("nightly")
    file = fresh.root / "triggers.json"

    def write(*entries):
        file.write_text(json.dumps({"triggers": list(entries)}))

    write()
    fresh.environment["PI_TRIGGERS_FILE"] = str(file)
    fresh.start()
    write(
        {
            "on": {"type": "cron", "id": "nightly", "pattern": "*/2 * * * * *", "tz": "Europe/Berlin"},
            "run": {"kind": "local", "folder": str(folder), "flow": "tidy", "task": f"work in {folder.name}"},
        }
    )
    eventually(lambda: fresh.one(SLOTS)["n"] > 0, "an instant has its slot", seconds=5)
    write()
    eventually(
        lambda: fresh.one("SELECT count(*) AS n FROM schedules WHERE removed_at IS NULL")["n"] == 0,
        "the edit holds",
        seconds=2,
    )
    slots = fresh.one(SLOTS)["n"]
    eventually(
        lambda: fresh.one("SELECT count(*) AS n FROM runs WHERE state <> 'ended'")["n"] == 0,
        "every run ends",
        seconds=120,
    )

    assert fresh.one(SLOTS)["n"] == slots
    first = fresh.one(
        "SELECT r.public_id, r.outcome, r.trigger_type, r.trigger_id, s.state FROM schedule_slots s"
        " JOIN runs r ON r.id = s.run_id ORDER BY s.planned_at LIMIT 1"
    )
    assert first.pop("public_id").startswith("repeat:nightly:")
    assert first == {
        "outcome": "completed",
        "trigger_type": "cron",
        "trigger_id": "nightly",
        "state": "ran",
    }
    assert fresh.one("SELECT count(*) AS n FROM runs")["n"] == slots


def test_a_schedule_that_is_refused_again_and_again_is_held_back(fresh):
    folder = fresh.repository("hopeless")
    file = fresh.root / "triggers.json"
    work = {
        "kind": "local",
        "folder": str(folder),
        "flow": "tidy",
        "task": "work",
        "image": "no-such-image:1",
    }
    on = {"type": "cron", "id": "hopeless", "pattern": "* * * * * *", "tz": "UTC"}
    file.write_text(json.dumps({"triggers": [{"on": on, "run": work}]}))
    fresh.environment |= {"PI_TRIGGERS_FILE": str(file), "PIDISPATCH_BREAKER_FAILURES": "2"}
    fresh.start()

    eventually(
        lambda: fresh.one("SELECT count(*) AS n FROM schedule_slots WHERE reason = 'breaker-open'")["n"] >= 3,
        "instants are skipped",
        seconds=30,
    )

    breaker = fresh.one("SELECT trigger_id, outcome, reason, failures >= 2 AS enough, probe FROM breakers")
    assert breaker == {
        "trigger_id": "hopeless",
        "outcome": "policy",
        "reason": "job-image-missing",
        "enough": True,
        "probe": None,
    }
    assert fresh.one("SELECT count(*) AS n FROM audit_log WHERE action = 'breaker-open'")["n"] == 1
    assert "held back: trigger hopeless" in fresh.pidispatch("status").stdout
