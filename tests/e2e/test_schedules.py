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
