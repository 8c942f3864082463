"""Each rule finds the drift that breaks it, names the row, and is content with real lives of runs."""

import pytest

from pidispatch.domain.health.checkup import Grade
from pidispatch.domain.runs.ask import WaitProfile
from pidispatch.store.read.invariants import INVARIANTS, look_for_contradictions
from tests.cli.lives import begin, call, end
from tests.store.builders import (
    a_boxed_run,
    a_held_run,
    a_host,
    a_run,
    an_admitted_run,
    some_caps,
    try_next,
    value,
)

OCCUPIED = "UPDATE scopes SET occupied = {} WHERE key = 'folder:/repos/x'"


@pytest.fixture
def lives(database):
    """A run that has ended, one refused, one at work in /repos/x, one that waits, one held; returns the database."""
    a_host(database)
    a_run(database)
    claim = begin(database)
    call(database, claim)
    end(database, claim)
    a_run(database)
    try_next(database, some_caps(daily=1))
    an_admitted_run(database, folder="/repos/x")
    a_run(database)
    a_held_run(database, WaitProfile("ci"))
    return database


def change(database, *statements):
    with database.transaction() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def broken(database):
    return {found.check: found for found in look_for_contradictions(database) if found.grade is not Grade.OK}


def test_lives_of_runs_break_no_rule(lives):
    findings = list(look_for_contradictions(lives))

    assert [found.check for found in findings] == [invariant.check for invariant in INVARIANTS]
    assert {found.grade for found in findings} == {Grade.OK}


def test_an_empty_database_breaks_no_rule(database):
    assert broken(database) == {}


def the_run_at_work(database):
    return value(database, "SELECT public_id FROM runs WHERE state = 'admitted'")


def the_ended_run(database):
    return value(database, "SELECT public_id FROM runs WHERE outcome = 'completed'")


LIVE = "(SELECT id FROM runs WHERE state = 'admitted')"
DONE = "(SELECT id FROM runs WHERE outcome = 'completed')"
PUT_RIGHT = (
    "INSERT INTO spend_adjustments (run_id, call_id, tokens_before, tokens_after, in_windows)"
    " SELECT run_id, id, 0, 0, false FROM provider_calls"
)


@pytest.mark.parametrize(
    ("statement", "check", "words"),
    [
        (
            "UPDATE spend_windows SET used = used + 3",
            "windows",
            "runs of *, day from {today}: used is 5, its reservations are 2",
        ),
        (f"DELETE FROM reservations WHERE run_id = {DONE}", "windows", "used is 2, its reservations are 1"),
        (OCCUPIED.format(0), "scopes", "folder:/repos/x: occupied is 0, its runs are 1"),
        (OCCUPIED.format(2), "scopes", "folder:/repos/x: occupied is 2, its runs are 1"),
        (
            "UPDATE scopes SET occupied = 0 WHERE key = 'inode:h1:/repos/x'",
            "scopes",
            "inode:h1:/repos/x: occupied is 0, its runs are 1",
        ),
        (
            f"UPDATE runs SET project = 'web' WHERE id = {LIVE}",
            "scopes",
            "project:web: occupied is 0, its runs are 1",
        ),
        (
            f"UPDATE reservations SET state = 'held', settled = NULL, closed_at = NULL WHERE run_id = {DONE}",
            "ended runs",
            "{ended} has ended and still holds a reservation",
        ),
        (
            f"UPDATE provider_calls SET state = 'held', settled_at = NULL WHERE run_id = {DONE}",
            "ended runs",
            "{ended} has ended with a model call open",
        ),
        (
            f"UPDATE reservations SET state = 'released', closed_at = now() WHERE run_id = {LIVE}",
            "reservations",
            "{live} is admitted and holds no reservation",
        ),
        (
            f"UPDATE runs SET state = 'deferred', cause = 'x' WHERE id = {LIVE}",
            "reservations",
            "{live} is deferred, never got its go, and holds a reservation",
        ),
        (
            f"UPDATE run_attempts SET go_at = NULL WHERE run_id = {DONE}",
            "charges",
            "{ended} never got its go and is charged",
        ),
        (
            f"UPDATE provider_calls SET state = 'held', settled_at = NULL, run_id = {LIVE}, attempt = 2",
            "open calls",
            "{live} is admitted in attempt 1, and attempt 2 has a model call open",
        ),
        (
            "UPDATE run_attempts SET used_micros = 7 WHERE used_tokens = 110",
            "call sums",
            "{ended}, attempt 1: counts 7 micro-dollars, 110 tokens and 1 turns, its calls 0, 110 and 1",
        ),
        (
            f"UPDATE runs SET cost_micros = 5 WHERE id = {DONE}",
            "costs",
            "{ended}: cost is 5, its calls were 0",
        ),
        (
            f"{PUT_RIGHT}; UPDATE provider_calls SET state = 'assumed', status = NULL",
            "late figures",
            "{ended}: call 1 was put right and is assumed",
        ),
        (
            "INSERT INTO one_shots (key, run_id) SELECT 'once', id FROM runs WHERE outcome = 'policy'",
            "one-shots",
            "which is ended and never got its go",
        ),
        (
            f"DELETE FROM run_attempts WHERE run_id = {LIVE}",
            "attempts",
            "{live} is admitted in attempt 1, which has no row",
        ),
        (
            "UPDATE run_payloads SET expires_at = NULL",
            "payloads",
            "{ended} has ended and its task is kept for ever",
        ),
        (
            "UPDATE run_waits SET next_check_at = NULL",
            "waits",
            "{held} is held and nobody will look at it",
        ),
        (
            "UPDATE runs SET state = 'queued' WHERE state = 'held'",
            "waits",
            "{held} is queued and its wait goes on",
        ),
    ],
)
def test_drift_made_by_hand_is_found_and_named(lives, statement, check, words):
    names = {
        "live": the_run_at_work(lives),
        "ended": the_ended_run(lives),
        "held": value(lives, "SELECT public_id FROM runs WHERE state = 'held'"),
        "today": value(lives, "SELECT starts_on FROM spend_windows"),
    }

    change(lives, statement)

    found = broken(lives)
    assert found[check].grade is Grade.FAILED
    assert words.format(**names) in found[check].detail
    assert found[check].way_out


def test_two_runs_in_one_folder_are_found(lives):
    change(
        lives,
        "DROP INDEX runs_one_per_folder",
        "UPDATE runs SET state = 'admitted', host = 'h1', attempt = 1, mutex = 'inode:h1:/repos/x'"
        " WHERE state = 'queued'",
    )

    found = broken(lives)["folders"]

    assert found.grade is Grade.FAILED
    assert found.detail.startswith("inode:h1:/repos/x: local-")
    assert found.detail.count("local-") == 2


def test_a_limit_lowered_under_its_runs_is_a_warning(lives):
    a_boxed_run(lives)

    change(lives, "UPDATE hosts SET capacity = 1")

    found = broken(lives)["slots"]
    assert (found.grade, found.detail) == (Grade.WARNING, "host h1: 2 of 1")


def test_a_run_that_was_measured_above_its_cap_is_a_warning(lives):
    change(
        lives,
        "UPDATE provider_calls SET cost_micros = 8",
        f"UPDATE runs SET cost_cap_micros = 7 WHERE id = {DONE}",
    )

    found = broken(lives)["run caps"]
    assert found.grade is Grade.WARNING
    assert found.detail == f"{the_ended_run(lives)}: 8 of 7 micro-dollars"


def test_at_most_ten_are_named_with_how_many_more_there_are(database):
    a_host(database)
    change(
        database, "INSERT INTO scopes (key, occupied) SELECT 'folder:' || n, 1 FROM generate_series(1, 25) n"
    )

    detail = broken(database)["scopes"].detail

    assert detail.count("occupied is 1") == 10
    assert detail.endswith("; and 15 more")
