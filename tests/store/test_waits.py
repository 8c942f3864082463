"""Held runs as rows: claimed for a look by one, let go once, one for each key, and with nothing in their hands."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.triggers.wait import GiveUp, Hold, Progress, Start, WaitAnswer
from pidispatch.store.runs import cancelling
from pidispatch.store.runs.waits import Waits
from tests.store.builders import HOST, a_held_run, a_host, a_run, assert_ledger_is_exact, row, try_next, value

CI = WaitProfile("ci")
MINUTE = timedelta(minutes=1)
RUN = "SELECT state, cause, outcome, reason, why, not_before, attempt FROM runs WHERE id = :id"
WAIT = "SELECT * FROM run_waits WHERE run_id = :id"


@pytest.fixture
def waits(database):
    a_host(database)
    return waits_of(database)


def waits_of(database, host=HOST, worker="h1:1", seconds=10.0):
    return Waits(database, host=host, worker=worker, check_seconds=seconds)


def change(database, statement, **values):
    with database.transaction() as connection:
        connection.execute(text(statement), values)


def make_due(database, run_id):
    change(
        database,
        "UPDATE run_waits SET next_check_at = now() - interval '1 s', lease_until = NULL, lease_by = NULL WHERE run_id = :id",
        id=run_id,
    )


def asked(waits, slots=1):
    """The next due run whose programs are to be asked, taken past its first look."""
    found = waits.claim(asking=False, slots=0)
    if found is not None:
        assert waits.settle(found, Hold(found.now, found.progress, asking=True)) is not None
    return waits.claim(asking=True, slots=slots)


def test_a_run_that_waits_is_held_from_its_first_moment_and_holds_nothing(database, waits):
    run_id = a_held_run(database, WaitAfter(database.now() + MINUTE), CI, key="acme/web#7#0")

    found = row(database, RUN, id=run_id)
    assert (found["state"], found["cause"], found["attempt"]) == ("held", "wait", 0)
    assert try_next(database) is None
    assert_ledger_is_exact(database)
    assert value(database, "SELECT count(*) FROM reservations") == 0


def test_a_claim_says_what_is_waited_for_and_is_nobody_elses(database, waits):
    instant = database.now() + MINUTE
    run_id = a_held_run(database, WaitAfter(instant), CI)

    held = waits.claim(asking=False, slots=0)

    assert (held.run_id, held.conditions, held.progress) == (run_id, (WaitAfter(instant), CI), Progress())
    assert (held.pinned_host, held.key, held.asking) == (HOST, None, False)
    assert held.target.startswith("acme/web#")
    assert waits_of(database, worker="h1:2").claim(asking=False, slots=0) is None
    assert waits.claim(asking=True, slots=9) is None


def test_a_hold_is_kept_until_its_instant(database, waits):
    run_id = a_held_run(database, CI)
    held = asked(waits)
    progress = Progress(held.now, held.now, 3, 1, "ci", WaitAnswer.FAULT, held.now)

    assert waits.settle(held, Hold(held.now + MINUTE, progress, asking=True))

    assert row(database, RUN, id=run_id)["not_before"] == held.now + MINUTE
    assert waits.claim(asking=True, slots=1) is None
    assert 50 < waits.seconds_to_next() <= 60
    make_due(database, run_id)
    assert waits.claim(asking=True, slots=1).progress == progress
    assert waits.seconds_to_next() is None


def test_what_is_let_go_waits_for_a_worker_from_then_on(database, waits):
    run_id = a_held_run(database, WaitAfter(database.now()))
    change(database, "UPDATE runs SET queued_at = now() - interval '3 days' WHERE id = :id", id=run_id)
    held = waits.claim(asking=False, slots=0)

    assert waits.settle(held, Start(held.progress)) == Start(held.progress)

    found = row(
        database,
        "SELECT state, cause, not_before, queued_at > now() - interval '1 min' AS new FROM runs WHERE id = :id",
        id=run_id,
    )
    assert found == {"state": "queued", "cause": None, "not_before": None, "new": True}
    assert row(database, WAIT, id=run_id)["next_check_at"] is None
    assert try_next(database)[0] == run_id


def test_what_is_given_up_ends_as_refused_and_its_task_has_a_last_day(database, waits):
    run_id = a_held_run(database, CI)
    held = asked(waits)

    waits.settle(held, GiveUp("wait-expired", replace(held.progress, checks=96)))

    found = row(database, RUN, id=run_id)
    assert (found["state"], found["outcome"], found["reason"]) == ("ended", "policy", "wait-expired")
    assert (found["cause"], found["not_before"]) == (None, None)
    assert value(database, "SELECT expires_at > now() FROM run_payloads WHERE run_id = :id", id=run_id)
    assert row(database, WAIT, id=run_id)["checks"] == 96
    assert_ledger_is_exact(database)


def test_a_check_that_dies_with_its_worker_is_asked_again_and_its_late_answer_is_not_heard(database, waits):
    run_id = a_held_run(database, CI)
    dead = asked(waits)
    change(
        database, "UPDATE run_waits SET lease_until = now() - interval '1 s' WHERE run_id = :id", id=run_id
    )

    again = waits_of(database, worker="h1:2").claim(asking=True, slots=1)

    assert (again.run_id, again.epoch) == (run_id, dead.epoch + 1)
    assert waits.settle(dead, Start(dead.progress)) is None
    assert row(database, RUN, id=run_id)["state"] == "held"
    assert waits.settle(again, Start(again.progress)) is not None


def test_a_lease_lasts_as_long_as_all_programs_may_take(database):
    a_host(database)
    waits = waits_of(database, seconds=100)
    run_id = a_held_run(database, CI, WaitProfile("a"), WaitProfile("b"))

    held = asked(waits)

    assert row(database, WAIT, id=run_id)["lease_until"] - held.now > timedelta(seconds=390)


def test_no_more_checks_run_at_a_time_than_there_are_slots_on_all_hosts(database, waits):
    a_host(database, host="h2")
    for _ in range(3):
        a_held_run(database, CI)
    while (found := waits.claim(asking=False, slots=0)) is not None:
        waits.settle(found, Hold(found.now, found.progress, asking=True))

    claims = [waits.claim(asking=True, slots=2) for _ in range(3)]

    assert [claim is not None for claim in claims] == [True, True, False]
    assert waits_of(database, host="h2").claim(asking=True, slots=2) is None
    assert waits.seconds_to_next() < 0  # the third is overdue, which is told of
    waits.settle(claims[0], Start(claims[0].progress))
    assert waits.claim(asking=True, slots=2) is not None


def test_a_host_looks_at_its_own_runs(database, waits):
    a_host(database, host="h2")
    a_held_run(database, CI)

    assert waits_of(database, host="h2").claim(asking=False, slots=0) is None
    assert waits.claim(asking=False, slots=0) is not None


@pytest.mark.parametrize("everything", [True, False])
def test_what_an_operator_holds_back_is_not_asked_after(database, waits, everything):
    run_id = a_held_run(database, CI)
    scope = "*" if everything else row(database, "SELECT scope FROM runs WHERE id = :id", id=run_id)["scope"]
    change(database, "UPDATE scopes SET paused_at = now() WHERE key = :key", key=scope)

    assert waits.claim(asking=False, slots=0) is None
    assert waits.seconds_to_next() is None

    change(database, "UPDATE scopes SET paused_at = NULL")
    assert waits.claim(asking=False, slots=0) is not None


def test_of_one_key_one_is_asked_after_and_the_others_learn_by_whom(database, waits):
    first, second = (a_held_run(database, CI, key="k#0") for _ in range(2))
    other = a_held_run(database, CI, key="k#1")

    held = [asked(waits, slots=9) for _ in range(2)]
    late = waits.claim(asking=False, slots=0)

    assert [each.run_id for each in held] == [first, second]
    assert [each.held_by for each in held] == [None, first]
    assert (late.run_id, late.held_by, late.started_by) == (other, None, None)
    waits.settle(held[1], GiveUp("wait-superseded", held[1].progress, held[1].held_by))
    assert row(database, RUN, id=second)["reason"] == "wait-superseded"
    assert row(database, WAIT, id=second)["superseded_by"] == first


@pytest.mark.parametrize("end", ["cancel", "give up", "by hand"])
def test_a_holder_that_ends_makes_room_for_the_next_of_its_key(database, waits, end):
    first, second = (a_held_run(database, CI, key="k#0") for _ in range(2))
    held = asked(waits)

    if end == "cancel":
        cancelling.cancel(database, first, actor="ada@h1")
    elif end == "give up":
        waits.settle(held, GiveUp("wait-refused", replace(held.progress, held_since=held.now)))
    else:
        change(
            database,
            "UPDATE runs SET state = 'ended', outcome = 'policy', ended_at = now() WHERE id = :id",
            id=first,
        )

    found = asked(waits)
    assert (found.run_id, found.held_by, found.started_by) == (second, None, None)
    assert row(database, WAIT, id=second)["holder"] is True


def test_a_run_that_was_held_and_let_go_stands_for_its_key_for_a_quarter_of_an_hour(database, waits):
    first = a_held_run(database, CI, key="k#0")
    held = asked(waits)
    waits.settle(held, Start(replace(held.progress, held_since=held.now)))
    second = a_held_run(database, CI, key="k#0")

    assert waits.claim(asking=False, slots=0).started_by == first

    change(
        database,
        "UPDATE run_waits SET let_go_at = let_go_at - interval '15 min' WHERE run_id = :id",
        id=first,
    )
    make_due(database, second)
    assert waits.claim(asking=False, slots=0).started_by is None


def test_a_run_that_never_had_to_wait_stands_for_nobody(database, waits):
    a_held_run(database, CI, key="k#0")
    held = asked(waits)
    waits.settle(held, Start(held.progress))
    a_held_run(database, CI, key="k#0")

    assert waits.claim(asking=False, slots=0).started_by is None


def test_of_two_that_are_found_ready_at_the_same_moment_one_is_told_that_it_is_superseded(database, waits):
    runs = [a_held_run(database, WaitAfter(database.now()), key="k#0") for _ in range(2)]
    held = [waits.claim(asking=False, slots=0) for _ in range(2)]
    steps = [Start(replace(each.progress, held_since=each.now)) for each in held]

    written = [waits.settle(each, step) for each, step in zip(held, steps, strict=True)]

    assert written[0] == steps[0]
    assert written[1] == GiveUp("wait-superseded", steps[1].progress, runs[0])
    assert [row(database, RUN, id=each)["state"] for each in runs] == ["queued", "ended"]


def test_a_cancelled_run_is_not_looked_at_again_and_a_check_that_is_on_its_way_writes_nothing(
    database, waits
):
    run_id = a_held_run(database, CI, key="k#0")
    held = asked(waits)

    cancelling.cancel(database, run_id, actor="ada@h1")

    assert waits.settle(held, Start(held.progress)) is None
    assert row(database, RUN, id=run_id)["reason"] == "operator-cancel"
    kept = row(database, WAIT, id=run_id)
    assert (kept["next_check_at"], kept["holder"], kept["lease_by"]) == (None, False, None)


def test_what_a_newer_version_waits_for_is_not_understood(database, waits):
    run_id = a_held_run(database, CI)
    change(
        database, """UPDATE run_waits SET conditions = '[{"quiet": "10m"}]' WHERE run_id = :id""", id=run_id
    )

    assert waits.claim(asking=False, slots=0).conditions is None


@pytest.mark.parametrize(
    "wrong",
    [
        "conditions = '{}'",
        "checks = 1, faults = 2",
        "last_answer = 'maybe'",
        "lease_until = now()",
        "holder = true",
        "next_check_at = 'infinity'",
    ],
)
def test_the_database_refuses_a_wait_that_makes_no_sense(database, waits, wrong):
    run_id = a_held_run(database, CI)

    with pytest.raises(IntegrityError):
        change(database, f"UPDATE run_waits SET {wrong} WHERE run_id = :id", id=run_id)


def test_a_run_that_waits_for_nothing_is_queued_and_has_no_wait(database, waits):
    run_id = a_run(database)

    assert row(database, RUN, id=run_id)["state"] == "queued"
    assert value(database, "SELECT count(*) FROM run_waits") == 0


def test_twenty_runs_of_one_key_seen_by_eight_workers_are_one_run(database):
    a_host(database)
    for _ in range(20):
        a_held_run(database, CI, WaitAfter(database.now() - MINUTE), key="k#0")

    def work(number):
        mine = waits_of(database, worker=f"h1:{number}")
        while True:
            held = mine.claim(asking=False, slots=0) or mine.claim(asking=True, slots=99)
            if held is None:
                return
            other = held.started_by or held.held_by
            if other is not None:
                mine.settle(held, GiveUp("wait-superseded", held.progress, other))
            elif not held.asking:
                mine.settle(held, Hold(held.now, replace(held.progress, held_since=held.now), asking=True))
            else:
                mine.settle(held, Start(held.progress))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))

    with database.transaction() as connection:
        ends = dict(
            connection.execute(text("SELECT coalesce(reason, state), count(*) FROM runs GROUP BY 1")).all()
        )
    assert ends == {"queued": 1, "wait-superseded": 19}
