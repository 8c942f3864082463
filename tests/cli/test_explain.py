"""`explain`: gates, numbers and what a run waits for, of runs in every state."""

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.app.policy import FilePolicies
from tests.cli.lives import FAILED, begin, call, end
from tests.cli.test_runs import name_of
from tests.flows.site import Site
from tests.store.builders import a_host, a_run, some_caps, try_next, value
from tests.support.timed import an_entry, planned, synced, the_schedules
from tests.support.wallclock import utc

GATE = ["gate", "verdict", "saw", "why"]


@pytest.fixture
def site(database):
    return Site(database)


def verdicts(document):
    return {line["gate"]: line["verdict"] for line in document["gates"]}


def test_an_admitted_run_shows_every_gate_and_its_numbers(pidispatch, database, site):
    run_id = a_run(database, folder="/repos/x")
    site.started()

    found = pidispatch("explain", str(run_id), "--json").document
    said = pidispatch("explain", str(run_id)).out

    assert list(found) == [
        "run",
        "answer",
        "gates",
        "waits_for",
        "attempts",
        "wait",
        "asked",
        "session",
        "breaker",
        "slot",
        "lateness",
        "red",
    ]
    assert [list(line) for line in found["gates"]] == [GATE] * 11
    assert set(verdicts(found).values()) == {"passed"}
    assert (found["answer"]["kind"], found["waits_for"]) == ("admitted", None)
    lines = said.splitlines()
    assert lines[0] == f"{name_of(database, run_id)}: running"
    assert lines[1].startswith("last looked at 2")
    assert [line.split()[0] for line in lines[4:] if line] == [
        "settings", "image", "models", "provider", "folder", "pause-windows", "run-cap", "pause", "slots", "host-capacity",
        "runs", "attempt",
    ]  # fmt: skip
    for words in (
        "sha256:1",
        "models         passed   any model\n",
        "openai-completions, a key",
        "owned by user 1000",
        "0 in folder:/repos/x, 0 of 1 in inode:h1:1:",
        "3 of 3 free on h1",
        "runs a day     passed   1 of 25, 1 of it this run's: ok",
        "attempt 1 on h1 never got its go",
    ):
        assert words in said


def test_a_run_refused_by_a_cap_shows_the_window_that_was_full(pidispatch, database):
    a_host(database)
    a_run(database)
    try_next(database, some_caps(daily=1))
    with database.transaction() as connection:
        connection.execute(text("UPDATE run_attempts SET go_at = clock_timestamp()"))
    refused = a_run(database)
    try_next(database, some_caps(daily=1))

    found = pidispatch("explain", str(refused), "--json").document
    said = pidispatch("explain", str(refused)).out

    assert verdicts(found) | {"window": "stopped here", "host-capacity": "passed"} == verdicts(found)
    assert "refused, over-budget day-cap" in said
    assert "stopped here  over-budget day-cap: 2 of 1, 1 of it this run's: over" in said
    assert said.splitlines()[-1].startswith("ended 2")


def test_a_run_that_waits_for_what_others_hold_says_how_much(pidispatch, database):
    a_host(database)
    a_run(database)
    try_next(database, some_caps(daily=1))
    waiter = a_run(database)
    try_next(database, some_caps(daily=1))

    said = " ".join(pidispatch("explain", str(waiter)).out.split())

    assert "what is left of a cap is held by runs that have not ended (cap-held)" in said
    assert "2 of 1, 1 of it this run's and 1 held by runs that have not ended: over" in said


def test_a_refused_run_shows_the_gate_that_stopped_it(pidispatch, database, site):
    run_id = a_run(database)
    site.images.facts_by_tag = {}
    site.gate.admit()

    found = pidispatch("explain", str(run_id), "--json").document
    said = pidispatch("explain", str(run_id)).out

    assert list(verdicts(found).values()) == ["passed", "stopped here", *["not reached"] * 9]
    assert "image          stopped here  job-image-missing" in said
    assert "policy: job-image-missing" in said.splitlines()[-1]


def test_a_deferred_run_says_what_it_waits_for_now(pidispatch, database, site):
    run_id = a_run(database)
    site.doors.down = True
    site.gate.admit()

    found = pidispatch("explain", str(run_id), "--json").document
    said = pidispatch("explain", str(run_id)).out

    assert found["waits_for"]["word"] == "gateway-unreachable"
    assert found["waits_for"]["place"] == 1
    assert verdicts(found)["provider"] == "stopped here"
    assert "waits until 2" in said
    assert "does not answer (gateway-unreachable); place 1 in line" in said


def test_a_run_whose_provider_is_busy_says_until_when(pidispatch, database, site):
    run_id = a_run(database)
    until = value(database, "SELECT now()") + timedelta(seconds=90)
    site.doors.providers["scripted"] = replace(site.doors.providers["scripted"], busy_until=until)
    site.gate.admit()

    found = pidispatch("explain", str(run_id), "--json").document
    said = pidispatch("explain", str(run_id)).out

    assert found["waits_for"]["word"] == "provider-busy"
    assert verdicts(found)["provider"] == "stopped here"
    assert f"provider-busy: openai-completions, a key, busy until {until:%Y-%m-%d %H:%M:%S}" in said
    assert "its provider is busy (provider-busy); place 1 in line" in said


def test_a_run_that_nobody_looked_at_says_what_it_waits_for(pidispatch, database):
    run_id = a_run(database, folder="/repos/x")
    said = pidispatch("explain", str(run_id)).out
    assert "nobody has looked at it yet\nwaits for a worker on h1: start `pidispatch up`" in said
    assert said.count("not reached") == 11

    a_host(database, capacity=1)
    assert "waits for its turn, nothing holds it back; place 1" in pidispatch("explain", str(run_id)).out

    try_next(database)
    second = a_run(database, folder="/repos/y")
    third = a_run(database, folder="/repos/x")
    assert (
        "waits for room on h1: 1 of 1 are running; place 1 in line" in pidispatch("explain", str(second)).out
    )
    behind = f"waits for its folder, in which {name_of(database, run_id)} is at work; place 2 in line"
    assert behind in pidispatch("explain", str(third)).out

    pidispatch("pause", "--scope", "folder:/repos/y")
    assert "paused is folder:/repos/y; place" in pidispatch("explain", str(second)).out
    pidispatch("pause")
    assert "everything is paused since 2" in pidispatch("explain", str(second)).out


def test_the_attempts_and_the_end_are_one_line_each(pidispatch, database):
    run_id = a_run(database)
    claim = begin(database)
    call(database, claim)
    end(database, claim, FAILED, code=1)

    lines = pidispatch("explain", str(run_id)).out.splitlines()

    assert lines[-2] == "attempt 1 on h1 got its go, failed infra agent-died, exit code 1"
    assert lines[-1].endswith("failed: infra (agent-died), 110 (100 in, 10 out) in 1 call, no price")


def test_explaining_a_run_needs_no_policy(pidispatch, database, monkeypatch):
    def broken(_):
        raise AssertionError("asked for the policy")

    run_id = a_run(database)
    monkeypatch.setattr(FilePolicies, "current", broken)

    assert pidispatch("explain", str(run_id)).code == 0


MONDAY = utc(2026, 5, 4)
DUE = MONDAY + timedelta(hours=3)


def scheduled(database, *, now, **asked):
    """The run of a schedule whose instant was DUE, planned at `now`; returns its public id."""
    a_host(database)
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, an_entry(pattern="0 5 * * *", tz="Europe/Berlin", **asked))
    planned(schedules, known, now)
    return value(database, "SELECT public_id FROM runs WHERE trigger_id IS NOT NULL")


def timed(database, **times):
    """Move what happened to the run of the schedule to the time of the test."""
    statements = {
        "admitted": "UPDATE run_attempts SET admitted_at = :at",
        "started": "UPDATE runs SET started_at = :at WHERE trigger_id IS NOT NULL",
    }
    with database.transaction() as connection:
        for name, seconds in times.items():
            connection.execute(text(statements[name]), {"at": DUE + timedelta(seconds=seconds)})


def test_a_run_of_a_schedule_says_which_instant_it_is_of(pidispatch, database):
    name = scheduled(database, now=DUE)
    begin(database)
    timed(database, admitted=0.1, started=0.8)

    found = pidispatch("explain", name, "--json").document
    said = pidispatch("explain", name).out.splitlines()

    assert said[1] == "schedule nightly, planned for 2026-05-04 05:00:00 Europe/Berlin (2026-05-04 03:00:00Z)"
    assert said[2] == "started on time, 0.8 s after its instant"
    assert (found["slot"]["state"], found["slot"]["zone"]) == ("ran", "Europe/Berlin")
    assert found["lateness"] == {"seconds": 0.8, "started": True, "causes": []}


def test_a_run_that_was_made_up_for_says_so(pidispatch, database):
    name = scheduled(database, now=DUE + timedelta(hours=2))

    said = pidispatch("explain", name).out

    assert "not started yet, " in said
    assert "no worker was there to plan it until 2026-05-04 05:00:00Z; it was made up for" in said
    causes = pidispatch("explain", name, "--json").document["lateness"]["causes"]
    assert [cause["word"] for cause in causes] == ["not-planned-in-time", "catch-up"]


def test_a_run_that_waited_for_its_folder_names_the_other(pidispatch, database):
    name = scheduled(database, now=DUE)
    run_id = value(database, "SELECT id FROM runs")
    begin(database)
    other = a_run(database)
    with database.transaction() as connection:
        connection.execute(
            text(
                "UPDATE runs SET state = 'ended', outcome = 'completed', attempt = 1, ended_at = :at,"
                " mutex = (SELECT mutex FROM runs WHERE id = :run) WHERE id = :other"
            ),
            {"at": DUE + timedelta(seconds=50), "run": run_id, "other": other},
        )
    timed(database, admitted=51, started=52)

    said = pidispatch("explain", name).out

    busy = f"its folder was busy with {name_of(database, other)} until 2026-05-04 03:00:50Z"
    assert f"started 52 s late: {busy}\n" in said


def test_a_run_that_was_paused_says_until_when(pidispatch, database):
    name = scheduled(database, now=DUE)
    begin(database)
    with database.transaction() as connection:
        for scope, changed, at in (("*", "true", 40), ("*", "false", 55), ("folder:other", "true", 56)):
            connection.execute(
                text(
                    "INSERT INTO audit_log (actor, action, subject, detail, at) VALUES ('me', 'resume', :scope,"
                    " jsonb_build_object('changed', CAST(:changed AS boolean)), :at)"
                ),
                {"scope": scope, "changed": changed, "at": DUE + timedelta(seconds=at)},
            )
    timed(database, admitted=60, started=61)

    assert (
        "started 1 min 1 s late: it was paused until 2026-05-04 03:00:40Z\n"
        in pidispatch("explain", name).out
    )


def test_a_run_that_no_schedule_started_has_no_instant(pidispatch, database):
    run_id = a_run(database)

    found = pidispatch("explain", str(run_id), "--json").document

    assert (found["slot"], found["lateness"]) == (None, None)
    assert "schedule" not in pidispatch("explain", str(run_id)).out
