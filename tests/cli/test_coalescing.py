"""`run` beside schedules: one run for both, and everybody is told which."""

import os
import time
from datetime import timedelta
from functools import partial

import pytest

from pidispatch.runtime.workspace import open_folder
from tests.cli.lives import begin, end, meanwhile
from tests.store.builders import a_host, value
from tests.support.minutes import early_in_a_minute
from tests.support.timed import an_entry, planned, synced, the_schedules

MINUTE = timedelta(minutes=1)


@pytest.fixture
def scheduled(database, folder):
    """A schedule starts a run in the test's folder now; returns the run's name."""
    early_in_a_minute()
    a_host(database)
    schedules = the_schedules(database, folders=partial(open_folder, worker_uid=os.geteuid()))

    def come():
        now = database.now()
        entry = an_entry(pattern="* * * * *", folder=str(folder), flow="tidy", task="do it")
        planned(schedules, synced(schedules, now - MINUTE, entry), now)
        return value(database, "SELECT public_id FROM runs WHERE trigger_type = 'cron'")

    return come


@pytest.fixture
def run(pidispatch, gitbox, folder):
    return partial(pidispatch, "run", str(folder), "--task", "do it", "--flow", "tidy")


def test_a_request_for_what_a_schedule_just_started_is_told_of_that_run(run, scheduled, database):
    name = scheduled()

    first, again = run(), run()

    assert first.code == again.code == 0
    assert first.out.startswith(f"coalesced into {name}, asked for a moment ago: queued · place 1 in line\n")
    assert again.out.startswith(f"{name} is this same request of this minute, nothing new is queued")
    assert value(database, "SELECT count(*) FROM runs") == 1


def test_a_program_finds_that_run_in_its_document(run, scheduled):
    name = scheduled()

    document = run("--json").document

    assert (document["public_id"], document["coalesced"], document["duplicate"]) == (name, True, False)
    assert (document["run"]["public_id"], document["rung"]) == (name, True)


def test_waiting_follows_that_run_to_its_end(run, scheduled, database):
    name = scheduled()

    def live():
        while not value(database, "SELECT count(*) FROM deliveries WHERE source = 'cli'"):
            time.sleep(0.05)
        end(database, begin(database))

    with meanwhile(live):
        said = run("--wait")

    assert said.code == 0
    assert f"{name}: completed after" in said.out


@pytest.mark.parametrize("asked", [("--model", "m/1"), ("--max-turns", "3"), ("--image", "own:1")])
def test_a_request_that_wants_something_of_its_own_has_a_run_of_its_own(run, scheduled, database, asked):
    scheduled()

    said = run(*asked)

    assert "coalesced" not in said.out
    assert value(database, "SELECT count(*) FROM runs") == 2


def test_a_request_for_later_is_not_the_run_that_starts_now(run, scheduled, database):
    scheduled()

    said = run("--after", (database.now() + timedelta(hours=1)).isoformat())

    assert "is held until" in said.out
    assert value(database, "SELECT count(*) FROM runs") == 2


def test_explain_tells_who_asked_and_what_each_was_answered(run, scheduled, pidispatch):
    name = scheduled()
    run()

    said, found = pidispatch("explain", name), pidispatch("explain", name, "--json").document

    asked = [line for line in said.out.splitlines() if " asked for it 2" in line]
    assert asked[0].startswith("cron")
    assert asked[0].endswith(": started")
    assert asked[1].startswith("cli")
    assert asked[1].endswith(": coalesced")
    assert [(each["source"], each["decision"]) for each in found["asked"]] == [
        ("cron", "started"),
        ("cli", "coalesced"),
    ]


def test_explain_counts_those_that_a_screen_has_no_room_for(run, scheduled, pidispatch, database):
    name = scheduled()
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO deliveries (source, delivery_id, event, action, decision, reason, run_id, repeats)"
            " SELECT 'github', n::text, 'issues', 'labeled', 'coalesced', 'same-occurrence', 1, 2"
            " FROM generate_series(1, 1200) n"
        )

    said, found = pidispatch("explain", name), pidispatch("explain", name, "--json").document

    assert "github issues labeled asked for it 2" in said.out
    assert ": coalesced (same-occurrence), told again 2 times\n" in said.out
    assert "and 1,191 more asked for it\n" in said.out
    assert len(found["asked"]) == 100
