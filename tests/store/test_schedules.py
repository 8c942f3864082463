"""Schedules as rows: each instant once, whoever plans, whatever is edited, wherever the clock goes."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.triggers import Missed
from pidispatch.store.slots import latest_slots, schedules_of, slot_of_run
from tests.store.builders import a_host, a_run, row, value
from tests.support.timed import (
    DAY,
    HOST,
    HOUR,
    MINUTE,
    Folders,
    an_entry,
    planned,
    standing,
    synced,
    the_schedules,
)
from tests.support.wallclock import utc

MONDAY = utc(2026, 5, 4)
BOUNDS = (
    "SELECT r.cost_cap_micros, r.cost_cap_asked, r.allowed_models, r.models_asked, r.excluded_tools, p.skills_dir"
    " FROM runs r JOIN run_payloads p ON p.run_id = r.id"
)


@pytest.fixture
def folders():
    return Folders()


@pytest.fixture
def schedules(database, folders):
    a_host(database)
    return the_schedules(database, folders=folders)


def slots(database, schedule="nightly"):
    with database.transaction() as connection:
        found = connection.execute(
            text(
                "SELECT s.planned_at, s.state, s.reason, r.public_id FROM schedule_slots s"
                " LEFT JOIN runs r ON r.id = s.run_id WHERE s.schedule = :id ORDER BY 1"
            ),
            {"id": schedule},
        ).all()
    return [tuple(each) for each in found]


def at_once(moment, schedule="nightly"):
    return (moment, "ran", None, f"repeat:{schedule}:{int(moment.timestamp())}000")


def test_a_due_instant_is_a_slot_and_a_run_and_only_once(database, schedules):
    known = synced(schedules, MONDAY, an_entry(priority=7, model="m", provider="p", image="i:1", max_turns=9))
    due = MONDAY + 2 * HOUR + 30 * MINUTE

    early = schedules.plan(known, due - MINUTE)
    first = schedules.plan(known, due)
    again = schedules.plan(known, due)

    assert (early.due, early.next_at) == (0, due)
    assert (first.due, first.runs, first.next_at) == (1, 1, due + DAY)
    assert again.due == 0
    assert slots(database) == [at_once(due)]
    run = row(
        database,
        "SELECT r.*, p.folder, p.task, p.event FROM runs r JOIN run_payloads p ON p.run_id = r.id",
    )
    assert (run["state"], run["trigger_type"], run["trigger_id"], run["flow"]) == (
        "queued",
        "cron",
        "nightly",
        "tidy",
    )
    assert (run["priority"], run["provider"], run["model"], run["image"], run["max_turns"]) == (
        7,
        "p",
        "m",
        "i:1",
        9,
    )
    assert (run["pinned_host"], run["target"]) == (HOST, "local:nightly")
    assert (run["folder"], run["task"]) == (b"/repos/nightly", b"Tidy up")
    assert json.loads(run["event"]) == {
        "source": "cron",
        "trigger": {"id": "nightly", "pattern": "30 2 * * *"},
        "folder": "nightly",
        "sha": None,
        "scheduledFor": "2026-05-04T02:30:00.000Z",
        "previousRunAt": None,
    }


def test_the_event_tells_when_the_run_before_ended(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    planned(schedules, known, MONDAY + 2 * HOUR + 30 * MINUTE)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET state = 'ended', outcome = 'completed', started_at = :at, ended_at = :at"),
            {"at": MONDAY + 3 * HOUR},
        )
    planned(schedules, known, MONDAY + DAY + 2 * HOUR + 30 * MINUTE)

    event = value(
        database, "SELECT p.event FROM run_payloads p JOIN runs r ON r.id = p.run_id WHERE r.state = 'queued'"
    )
    assert json.loads(event)["previousRunAt"] == "2026-05-04T03:00:00.000Z"


def test_a_command_is_told_as_pi_reads_it(database, schedules):
    known = synced(schedules, MONDAY, an_entry(flow=None, task=None, command="report weekly"))
    planned(schedules, known, MONDAY + 3 * HOUR)

    assert value(database, "SELECT task FROM run_payloads") == b"/report weekly"
    assert value(database, "SELECT command FROM runs") == "report weekly"


def test_a_run_that_catches_up_is_deferred_and_says_so(database, schedules):
    known = synced(schedules, MONDAY, an_entry(missed=Missed.ONCE))
    now = MONDAY + 3 * DAY

    (answer,) = planned(schedules, known, now)

    assert answer.runs == 0  # no bell: it is not due yet
    assert [each[1:3] for each in slots(database)] == [
        ("missed", "made-up-by-a-newer"),
        ("missed", "made-up-by-a-newer"),
        ("deferred", "catch-up"),
    ]
    run = row(database, "SELECT state, cause, not_before FROM runs")
    assert (run["state"], run["cause"]) == ("deferred", "catch-up")
    assert now <= run["not_before"] <= now + 15 * MINUTE


def test_more_instants_than_fit_one_transaction_are_all_accounted_for(database, schedules):
    known = synced(
        schedules, MONDAY, an_entry(pattern="* * * * *"), an_entry("other", "* * * * *", missed=Missed.ALL)
    )
    now = MONDAY + DAY + timedelta(seconds=30)

    planned(schedules, known, now)

    for name, runs in (("nightly", 1), ("other", 1 + 23)):
        found = slots(database, name)
        assert [each[0] for each in found] == [MONDAY + n * MINUTE for n in range(1, 24 * 60 + 1)]
        assert sum(each[3] is not None for each in found) == runs


def test_a_new_schedule_has_no_past(database, schedules):
    known = synced(schedules, MONDAY + 12 * HOUR, an_entry())

    assert schedules.plan(known, MONDAY + 13 * HOUR).due == 0


def test_a_removed_entry_stops_and_comes_back_without_a_past(database, schedules):
    synced(schedules, MONDAY, an_entry(), an_entry("other"))
    known = synced(schedules, MONDAY + HOUR, an_entry("other"))
    planned(schedules, known, MONDAY + DAY)
    assert slots(database) == []
    assert row(database, "SELECT removed_at, next_at FROM schedules WHERE id = 'nightly'") == {
        "removed_at": MONDAY + HOUR,
        "next_at": None,
    }

    known = synced(schedules, MONDAY + DAY, an_entry(), an_entry("other"))
    planned(schedules, known, MONDAY + DAY + 2 * HOUR + 30 * MINUTE)
    assert slots(database) == [at_once(MONDAY + DAY + 2 * HOUR + 30 * MINUTE)]


def test_what_had_come_before_the_entry_was_removed_is_told(database, schedules):
    synced(schedules, MONDAY, an_entry())
    synced(schedules, MONDAY + 3 * HOUR)

    assert slots(database) == [(MONDAY + 2 * HOUR + 30 * MINUTE, "skipped", "removed", None)]


def test_a_changed_pattern_is_planned_from_now_and_the_old_one_up_to_now(database, schedules):
    synced(schedules, MONDAY, an_entry())
    now = MONDAY + 2 * HOUR + 30 * MINUTE + timedelta(seconds=20)

    known = synced(schedules, now, an_entry(pattern="0 * * * *"))
    planned(schedules, known, MONDAY + 3 * HOUR)

    assert slots(database) == [at_once(MONDAY + 2 * HOUR + 30 * MINUTE), at_once(MONDAY + 3 * HOUR)]


def test_another_task_changes_nothing_of_the_plan(database, schedules):
    synced(schedules, MONDAY, an_entry())
    before = row(database, "SELECT planned_until, next_at FROM schedules")

    known = synced(schedules, MONDAY + HOUR, an_entry(task="Something else"))
    planned(schedules, known, MONDAY + 2 * HOUR + 30 * MINUTE)

    assert before == {"planned_until": MONDAY, "next_at": MONDAY + 2 * HOUR + 30 * MINUTE}
    assert value(database, "SELECT task FROM run_payloads") == b"Something else"


def test_who_knows_an_older_file_plans_nothing_by_it(database, schedules):
    old = synced(schedules, MONDAY, an_entry())
    new = synced(schedules, MONDAY, an_entry(task="Something else"))

    assert schedules.plan(old, MONDAY + DAY).due == 0
    assert schedules.plan(new, MONDAY + DAY).due == 1


def test_an_entry_that_moved_keeps_its_plan(database, schedules):
    synced(schedules, MONDAY, an_entry("a"), an_entry("b", index=1))
    known = synced(schedules, MONDAY + HOUR, an_entry("b"), an_entry("a", index=1))
    planned(schedules, known, MONDAY + 3 * HOUR)

    assert len(slots(database, "a")) == len(slots(database, "b")) == 1
    assert value(database, "SELECT place FROM schedules WHERE id = 'b'") == 0


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_clock_that_is_put_an_hour_forward_or_back_starts_nothing_twice(database, schedules, step):
    known = synced(schedules, MONDAY, an_entry(pattern="*/10 * * * *", missed=Missed.ALL))
    moments = [MONDAY + n * 10 * MINUTE for n in range(1, 13)]
    stepped = [moment + step for moment in moments[6:]]

    for moment in [*moments[:6], *stepped, stepped[-1] + 2 * HOUR]:
        planned(schedules, known, moment)

    last = stepped[-1] + 2 * HOUR
    expected = [MONDAY + n * 10 * MINUTE for n in range(1, int((last - MONDAY) / (10 * MINUTE)) + 1)]
    assert [each[0] for each in slots(database)] == expected
    assert value(database, "SELECT count(*) FROM runs") == value(
        database, "SELECT count(*) FROM schedule_slots WHERE run_id IS NOT NULL"
    )


def test_an_edit_while_the_clock_is_behind_repeats_no_instant(database, schedules):
    known = synced(schedules, MONDAY, an_entry(pattern="*/30 * * * *"))
    planned(schedules, known, MONDAY + 30 * MINUTE)
    planned(schedules, known, MONDAY + HOUR)

    known = synced(schedules, MONDAY + 10 * MINUTE, an_entry(pattern="0,30 * * * *"))
    planned(schedules, known, MONDAY + 30 * MINUTE)
    planned(schedules, known, MONDAY + HOUR)
    planned(schedules, known, MONDAY + 90 * MINUTE)

    assert slots(database) == [at_once(MONDAY + n * 30 * MINUTE) for n in (1, 2, 3)]


def test_a_folder_that_is_gone_is_a_reason(database, schedules, folders):
    known = synced(schedules, MONDAY, an_entry())
    folders.missing.add("/repos/nightly")
    planned(schedules, known, MONDAY + 3 * HOUR)

    assert slots(database) == [(MONDAY + 2 * HOUR + 30 * MINUTE, "skipped", "local-folder-missing", None)]


@pytest.mark.parametrize("bound", [{"secrets": (("A", "b"),)}, {"github": True}, {"backend": "far"}])
def test_a_bound_that_is_not_enforced_yet_starts_nothing_without_it(database, schedules, bound):
    known = synced(schedules, MONDAY, an_entry(**bound))
    planned(schedules, known, MONDAY + 3 * HOUR)

    assert [each[1:3] for each in slots(database)] == [("skipped", "not-enforced-yet")]


def test_what_an_entry_bounds_is_in_the_row_of_its_run(database, schedules):
    bounds = {"cost_cap_micros": 500_000, "allowed_models": ("a/b", "c/d"), "excluded_tools": ("bash",)}
    known = synced(schedules, MONDAY, an_entry(skills_dir=b"/srv/skills", **bounds))
    planned(schedules, known, MONDAY + 3 * HOUR)

    assert row(database, BOUNDS) == {
        "cost_cap_micros": 500_000,
        "cost_cap_asked": 500_000,
        "allowed_models": ["a/b", "c/d"],
        "models_asked": ["a/b", "c/d"],
        "excluded_tools": ["bash"],
        "skills_dir": b"/srv/skills",
    }


def test_an_entry_without_bounds_has_none_in_the_row(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    planned(schedules, known, MONDAY + 3 * HOUR)

    assert set(row(database, BOUNDS).values()) == {None}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"flow": "a\0b"}, "no-text"),
        ({"image": "a\udc80"}, "no-text"),
        ({"folder": "/repos/\ud800"}, "local-folder-missing"),
    ],
)
def test_words_that_no_row_can_hold_stop_only_their_own_entry(database, schedules, folders, asked, reason):
    folders.missing.add("")
    known = synced(
        schedules, MONDAY, an_entry(**asked), an_entry("other", index=1, task="\ud800", max_turns=2**53 - 1)
    )
    planned(schedules, known, MONDAY + 2 * HOUR + 30 * MINUTE)

    assert [each[1:3] for each in slots(database)] == [("skipped", reason)]
    assert [each[1] for each in slots(database, "other")] == ["ran"]
    assert value(database, "SELECT max_turns FROM runs") == 2**31 - 1


def test_two_hosts_with_the_same_file_start_it_once(database, schedules):
    other = the_schedules(database, "h2")
    here, there = (synced(each, MONDAY, an_entry()) for each in (schedules, other))

    answers = [schedules.plan(here, MONDAY + 3 * HOUR), other.plan(there, MONDAY + 3 * HOUR)]

    assert [answer.due for answer in answers] == [1, 0]


def test_a_host_without_the_folder_leaves_the_entry_to_one_that_has_it(database, schedules):
    blind = standing(an_entry())
    blind = replace(
        blind, entries={name: replace(each, served=False) for name, each in blind.entries.items()}
    )
    schedules.sync(lambda: blind, MONDAY)
    a_host(database, host="h2")
    other = the_schedules(database, "h2")
    synced(other, MONDAY, an_entry())
    schedules.sync(lambda: blind, MONDAY)

    assert row(database, "SELECT host, served FROM schedules") == {"host": "h2", "served": True}


def test_a_host_that_died_is_followed_and_what_it_missed_is_made_up(database, schedules):
    synced(schedules, MONDAY, an_entry())
    other = the_schedules(database, "h2")
    with database.transaction() as connection:
        connection.execute(text("UPDATE hosts SET heartbeat_at = heartbeat_at - interval '2 minutes'"))

    known = synced(other, MONDAY + DAY, an_entry())
    planned(other, known, MONDAY + DAY)

    assert [each[1] for each in slots(database)] == ["deferred"]
    assert value(database, "SELECT pinned_host FROM runs") == "h2"


def test_a_look_that_changes_nothing_locks_nothing(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    with database.transaction() as connection:
        connection.execute(text("SELECT 1 FROM schedules FOR UPDATE"))
        synced(schedules, MONDAY + HOUR, an_entry())  # would wait for ever

    assert schedules.plan(known, MONDAY + 3 * HOUR).due == 1


def test_what_another_process_plans_is_left_to_it(database, schedules):
    known = synced(schedules, MONDAY, an_entry("a"), an_entry("b"))
    with database.transaction() as connection:
        connection.execute(text("SELECT 1 FROM schedules WHERE id = 'a' FOR UPDATE"))
        assert schedules.plan(known, MONDAY + 3 * HOUR).due == 1
    assert slots(database, "a") == []
    assert schedules.plan(known, MONDAY + 3 * HOUR).due == 1


def test_the_clock_is_that_of_postgres_where_none_is_given(database, schedules):
    known = schedules.sync(lambda: standing(an_entry()))
    answer = schedules.plan(known)

    assert abs(answer.now - database.now()) < timedelta(seconds=5)
    assert answer.next_at > answer.now


def test_what_became_of_an_instant_is_read_with_its_run(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    planned(schedules, known, MONDAY + 2 * DAY)
    by_hand = a_run(database)

    newest, older = latest_slots(database, "nightly")
    run = value(database, "SELECT run_id FROM schedule_slots WHERE run_id IS NOT NULL")

    assert (newest.state, newest.reason, newest.run_state, newest.cause) == (
        "deferred",
        "catch-up",
        "deferred",
        "catch-up",
    )
    assert (older.state, older.run) == ("missed", None)
    assert slot_of_run(database, run) == newest
    assert slot_of_run(database, by_hand) is None
    assert [(each.id, each.host, each.next_at) for each in schedules_of(database)] == [
        ("nightly", HOST, MONDAY + 2 * DAY + 2 * HOUR + 30 * MINUTE)
    ]
