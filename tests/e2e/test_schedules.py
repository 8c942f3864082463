"""A schedule on a real installation: it starts runs, an edit holds within a second, nothing of it stays behind."""

import json

import pytest

from tests.e2e.conftest import an_installation
from tests.e2e.installation import eventually

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("e2e"),
]

SLOTS = "SELECT count(*) AS n FROM schedule_slots WHERE schedule = 'nightly'"


def write(made, *entries):
    (made.root / "triggers.json").write_text(json.dumps({"triggers": list(entries)}))


@pytest.fixture(scope="module")
def scheduled():
    """An installation with an empty triggers file, and breakers that open soon."""
    for made in an_installation():
        made.environment["PI_TRIGGERS_FILE"] = str(made.root / "triggers.json")
        made.environment["PIDISPATCH_BREAKER_FAILURES"] = "2"
        write(made)
        made.start()
        yield made


def test_a_schedule_starts_a_run_and_a_removed_one_starts_no_more(scheduled):
    folder = scheduled.repository("nightly")

    write(
        scheduled,
        {
            "on": {"type": "cron", "id": "nightly", "pattern": "*/2 * * * * *", "tz": "Europe/Berlin"},
            "run": {"kind": "local", "folder": str(folder), "flow": "tidy", "task": f"work in {folder.name}"},
        },
    )
    eventually(lambda: scheduled.one(SLOTS)["n"] > 0, "an instant has its slot", seconds=5)
    write(scheduled)
    eventually(
        lambda: (
            scheduled.one("SELECT count(*) AS n FROM schedules WHERE id = 'nightly' AND removed_at IS NULL")[
                "n"
            ]
            == 0
        ),
        "the edit holds",
        seconds=2,
    )
    slots = scheduled.one(SLOTS)["n"]
    eventually(
        lambda: (
            scheduled.one("SELECT count(*) AS n FROM runs WHERE trigger_id = 'nightly' AND state <> 'ended'")[
                "n"
            ]
            == 0
        ),
        "every run ends",
        seconds=120,
    )

    assert scheduled.one(SLOTS)["n"] == slots
    first = scheduled.one(
        "SELECT r.public_id, r.outcome, r.trigger_type, r.trigger_id, s.state FROM schedule_slots s"
        " JOIN runs r ON r.id = s.run_id WHERE s.schedule = 'nightly' ORDER BY s.planned_at LIMIT 1"
    )
    assert first.pop("public_id").startswith("repeat:nightly:")
    assert first == {
        "outcome": "completed",
        "trigger_type": "cron",
        "trigger_id": "nightly",
        "state": "ran",
    }
    assert scheduled.one("SELECT count(*) AS n FROM runs WHERE trigger_id = 'nightly'")["n"] == slots


def test_a_schedule_that_is_refused_again_and_again_is_held_back(scheduled):
    folder = scheduled.repository("hopeless")
    work = {
        "kind": "local",
        "folder": str(folder),
        "flow": "tidy",
        "task": "work",
        "image": "no-such-image:1",
    }
    on = {"type": "cron", "id": "hopeless", "pattern": "* * * * * *", "tz": "UTC"}
    write(scheduled, {"on": on, "run": work})

    eventually(
        lambda: (
            scheduled.one("SELECT count(*) AS n FROM schedule_slots WHERE reason = 'breaker-open'")["n"] >= 3
        ),
        "instants are skipped",
        seconds=30,
    )

    breaker = scheduled.one(
        "SELECT trigger_id, outcome, reason, failures >= 2 AS enough, probe FROM breakers"
    )
    assert breaker == {
        "trigger_id": "hopeless",
        "outcome": "policy",
        "reason": "job-image-missing",
        "enough": True,
        "probe": None,
    }
    assert scheduled.one("SELECT count(*) AS n FROM audit_log WHERE action = 'breaker-open'")["n"] == 1
    assert "held back: trigger hopeless" in scheduled.pidispatch("status").stdout
