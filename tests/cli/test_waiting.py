"""What people see of a run that is held: how it is asked for, what it waits for, how it went."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.triggers import WaitAfter, WaitProfile
from pidispatch.domain.waiting import Answer, GiveUp, Hold, Start
from pidispatch.store.waits import PostgresWaits
from tests.cli.test_run import unboxed
from tests.cli.test_runs import name_of
from tests.store.builders import HOST, a_held_run, a_host, row, value

CI = WaitProfile("ci")
DAY = timedelta(days=1)


@pytest.fixture
def waits(database):
    a_host(database)
    return PostgresWaits(database, host=HOST, worker="h1:1", check_seconds=10)


@pytest.fixture
def run(pidispatch, gitbox, folder):
    return lambda *arguments: pidispatch("run", str(folder), "--task", "do it", *arguments)


def a_moment(ahead):
    return (datetime.now(UTC) + ahead).replace(microsecond=0)


def shown(moment):
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def test_a_run_for_later_is_held_until_then(run, database, folder):
    moment = a_moment(2 * DAY)

    said = run("--after", moment.strftime("%Y-%m-%dT%H:%M:%SZ"))

    kept = row(database, "SELECT * FROM runs r JOIN run_waits w ON w.run_id = r.id")
    assert (kept["state"], kept["cause"], kept["not_before"]) == ("held", "wait", moment)
    assert said.out.startswith(f"{kept['public_id']} is held until {shown(moment)} for local:{folder.name}\n")
    assert (said.code, said.err) == (0, "")


def test_the_same_task_for_another_instant_is_another_run(run, database):
    one, two = (a_moment(days * DAY).isoformat() for days in (1, 2))

    for after in (one, two, one):
        run("--after", after)
    run()

    assert value(database, "SELECT count(*) FROM runs") == 3


def test_an_instant_that_has_passed_is_nothing_to_wait_for(run, database):
    run("--after", "2026-01-01T00:00Z")

    assert value(database, "SELECT state FROM runs") == "queued"


@pytest.mark.parametrize("text", ["tomorrow", "2026-12-01", "2026-12-01T06:00", "2026-02-30T06:00Z"])
def test_an_instant_without_its_zone_is_refused(run, database, text):
    said = run("--after", text)

    assert said.code == 2
    assert "want an instant with its zone, such as 2026-12-01T06:00Z" in unboxed(said.err)
    assert value(database, "SELECT count(*) FROM runs") == 0


def test_an_instant_too_far_ahead_is_refused_before_anything_is_written(run, bare, database):
    bare.setenv("PI_WAIT_AFTER_MAX_MS", "86400000")

    said = run("--after", a_moment(2 * DAY).isoformat())

    assert said.code == 2
    assert "is more than 1 days ahead (PI_WAIT_AFTER_MAX_MS)" in unboxed(said.err)
    assert value(database, "SELECT count(*) FROM runs") == 0


def asked(waits):
    held = waits.claim(asking=False, slots=0)
    waits.settle(held, Hold(held.now, held.progress, asking=True))
    return waits.claim(asking=True, slots=9)


def test_a_held_run_says_what_it_waits_for_and_how_the_asking_went(pidispatch, database, waits):
    instant = a_moment(-DAY)
    run_id = a_held_run(database, WaitAfter(instant), CI)
    first = pidispatch("explain", str(run_id)).out
    assert f"may start after {shown(instant)} and when ci says go\n" in first
    assert "nobody has looked" not in first

    held = asked(waits)
    progress = replace(
        held.progress, checks=7, faults=2, last_profile="ci", last_answer=Answer.FAULT, last_at=held.now
    )
    waits.settle(held, Hold(held.now + DAY, progress, asking=True))

    said = pidispatch("explain", str(run_id)).out
    assert f"ci said fault at {shown(held.now.astimezone(UTC))}: 7 checks, 2 faults in a row\n" in said
    assert (
        f"waits until {shown((held.now + DAY).astimezone(UTC))}: what its trigger waits for is not so yet (wait); place 1 in line\n"
        in said
    )
    wait = pidispatch("explain", str(run_id), "--json").document["wait"]
    assert list(wait) == [
        "conditions", "checks", "faults", "last_profile", "last_answer", "last_at", "held_since", "next_check_at",
        "let_go_at", "superseded_by",
    ]  # fmt: skip
    assert wait["conditions"] == [{"after": instant.isoformat()}, {"profile": "ci"}]
    assert "when ci says go; ci said fault" in " ".join(pidispatch("show", str(run_id)).out.split())
    assert pidispatch("status", "--json").document["causes"] == {"wait": 1}
    assert name_of(database, run_id) in pidispatch("runs", "--state", "held").out
    assert value(database, "SELECT cause FROM why_waiting") == "wait"


def test_a_run_that_was_let_go_says_since_when(pidispatch, database, waits):
    run_id = a_held_run(database, CI)
    held = asked(waits)
    waits.settle(held, Start(held.progress))

    said = pidispatch("explain", str(run_id)).out

    assert "nothing is waited for any more since 2" in said
    assert "nobody has looked at it yet\n" in said


def test_a_superseded_run_names_the_one_that_does_its_work(pidispatch, database, waits):
    first, second = (a_held_run(database, CI, key="k#0") for _ in range(2))
    asked(waits)
    held = waits.claim(asking=False, slots=0)
    waits.settle(held, GiveUp("wait-superseded", held.progress, held.held_by))

    said = pidispatch("explain", str(second)).out

    assert "policy: wait-superseded" in said
    assert f"its work is done by {name_of(database, first)}\n" in said


def test_a_held_run_can_be_cancelled(pidispatch, database):
    a_host(database)
    run_id = a_held_run(database, CI)

    assert pidispatch("cancel", str(run_id)).code == 0

    assert value(database, "SELECT reason FROM runs") == "operator-cancel"
    assert value(database, "SELECT next_check_at FROM run_waits") is None


def test_conditions_of_a_newer_version_do_not_break_what_is_shown(pidispatch, database):
    a_host(database)
    run_id = a_held_run(database, CI)
    with database.transaction() as connection:
        connection.execute(text("""UPDATE run_waits SET conditions = '[{"after": "soon"}, 7, {"q": 1}]'"""))

    said = pidispatch("explain", str(run_id))

    assert said.code == 0
    assert "something is true that this version does not know" in said.out
