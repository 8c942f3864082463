"""Schedules and others who ask for the same: one run, each with its answer, and what a schedule does about its own."""

from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from sqlalchemy import event, text

from pidispatch.domain.arrival import Arrival, Became, Delivery
from pidispatch.domain.ask import Ask
from pidispatch.domain.identity import folder_scope
from pidispatch.domain.outcome import Again, End
from pidispatch.domain.run import BoxEnd, NewRun, Outcome
from pidispatch.domain.subject import folder_subject
from pidispatch.domain.triggers import Missed, WhileRunning
from pidispatch.ports import Admitted
from pidispatch.store.arrivals import PostgresArrivals
from pidispatch.store.calls import PostgresTickets
from pidispatch.store.cancelling import cancel
from pidispatch.store.endings import PostgresEndings
from pidispatch.store.runs import PostgresRuns
from tests.store.builders import a_host, assert_ledger_is_exact, row, try_next, value
from tests.support.timed import DAY, HOST, HOUR, MINUTE, an_entry, planned, standing, synced, the_schedules
from tests.support.wallclock import utc

MONDAY = utc(2026, 5, 4)
DUE = MONDAY + 2 * HOUR + 30 * MINUTE
TASK = b"Tidy up"


class KilledError(Exception):
    """The process is gone in the middle of its transaction."""


@pytest.fixture
def schedules(database):
    a_host(database, capacity=50)
    return the_schedules(database)


def asks(database, name="nightly", public_id="local-1", source="cli", **more):
    """Somebody asks for what the schedule `name` does."""
    folder = f"/repos/{name}"
    run = NewRun(
        public_id=public_id,
        folder=folder.encode(),
        folder_given=folder.encode(),
        task=TASK,
        task_bytes=len(TASK),
        event=b"{}",
        scope=folder_scope(folder),
        target=f"local:{name}",
        pinned_host=HOST,
        mutex=f"inode:{HOST}:{name}",
        ask=Ask(flow="tidy"),
    )
    subject = folder_subject(run.scope, "tidy", TASK)
    arrival = Arrival(Delivery(source, public_id), subject, run, WhileRunning.PARALLEL)
    return PostgresArrivals(database).arrive(replace(arrival, **more))


def slots(database, schedule="nightly"):
    statement = """
    SELECT s.state, s.reason, r.public_id FROM schedule_slots s LEFT JOIN runs r ON r.id = s.run_id
    WHERE s.schedule = :id ORDER BY s.planned_at"""
    with database.transaction() as connection:
        return [tuple(each) for each in connection.execute(text(statement), {"id": schedule})]


def told(database):
    """Each delivery with its answer, in the order in which they came."""
    statement = """
    SELECT d.source, d.decision, d.reason, r.public_id FROM deliveries d LEFT JOIN runs r ON r.id = d.run_id
    ORDER BY d.id"""
    with database.transaction() as connection:
        return [tuple(each) for each in connection.execute(text(statement))]


def count(database):
    return value(database, "SELECT count(*) FROM runs")


def own(moment, schedule="nightly"):
    return f"repeat:{schedule}:{int(moment.timestamp())}000"


def goes(database):
    """The next run gets its slot, its box and its go."""
    found = try_next(database)
    assert found is not None
    assert isinstance(found[1], Admitted), found
    runs = PostgresRuns(database)
    claim = runs.preparing(found[1].claim).claim
    container = f"{claim.run_id:064x}"
    runs.boxed(claim, container_id=container, name=f"box-{claim.run_id}")
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, 1, container)
    return runs.finishing(runs.facts(claim.run_id).claim)


def test_an_instant_leaves_its_delivery_with_its_answer(database, schedules):
    planned(schedules, synced(schedules, MONDAY, an_entry()), DUE)

    assert told(database) == [("cron", "started", None, own(DUE))]
    kept = row(database, "SELECT delivery_id, subject FROM deliveries")
    assert kept["delivery_id"] == own(DUE)
    assert kept["subject"] == value(database, "SELECT subject FROM runs")
    assert row(database, "SELECT scope, lane FROM subjects") == {
        "scope": folder_scope("/repos/nightly"),
        "lane": "tidy",
    }


def test_an_instant_that_somebody_asked_for_a_moment_ago_gets_that_run(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    asks(database)

    (answer,) = planned(schedules, known, DUE)

    assert (count(database), answer.runs) == (1, 0)
    assert slots(database) == [("ran", "coalesced", "local-1")]
    assert told(database) == [
        ("cli", "started", None, "local-1"),
        ("cron", "coalesced", "coalesced", "local-1"),
    ]


def test_who_asks_for_what_a_schedule_started_a_moment_ago_gets_that_run(database, schedules):
    planned(schedules, synced(schedules, MONDAY, an_entry()), DUE)
    before = value(database, "SELECT event FROM run_payloads")

    arrived = asks(database)

    assert str(arrived) == f"coalesced into {own(DUE)}"
    assert count(database) == 1
    assert value(database, "SELECT event FROM run_payloads") == before, "the same task says nothing new"


def test_one_request_answers_for_one_instant_only(database, schedules):
    known = synced(schedules, MONDAY, an_entry(pattern="* * * * *"))
    asks(database)

    planned(schedules, known, MONDAY + MINUTE)
    planned(schedules, known, MONDAY + 2 * MINUTE)

    assert slots(database) == [("ran", "coalesced", "local-1"), ("ran", None, own(MONDAY + 2 * MINUTE))]


def test_two_schedules_of_one_subject_have_a_run_each_and_take_turns(database, schedules):
    first, second = an_entry("a", folder="/repos/x"), an_entry("b", folder="/repos/x", index=1)
    planned(schedules, synced(schedules, MONDAY, first, second), DUE)

    assert [slots(database, name)[0][2] for name in "ab"] == [own(DUE, "a"), own(DUE, "b")]
    assert value(database, "SELECT count(*) FROM subjects") == 1
    assert try_next(database) is not None
    assert try_next(database) is None


@pytest.mark.parametrize(
    "not_it",
    [
        pytest.param("UPDATE runs SET created_at = created_at - interval '61 s'", id="long-ago"),
        pytest.param(
            "UPDATE runs SET state = 'ended', outcome = 'failed', reason = 'infra', ended_at = now()",
            id="failed",
        ),
        pytest.param("UPDATE runs SET stop_reason = 'operator-cancel'", id="is-stopped"),
    ],
)
def test_a_run_that_does_not_do_its_work_does_not_answer_for_an_instant(database, schedules, not_it):
    known = synced(schedules, MONDAY, an_entry())
    asks(database)
    with database.transaction() as connection:
        connection.execute(text(not_it))

    planned(schedules, known, DUE)

    assert slots(database) == [("ran", None, own(DUE))]


def test_a_run_that_is_made_up_for_joins_nothing_and_nobody_joins_it(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    asks(database)
    planned(schedules, known, MONDAY + 3 * HOUR)
    with database.transaction() as connection:
        connection.execute(text("UPDATE runs SET created_at = created_at - interval '61 s' WHERE id = 1"))

    arrived = asks(database, public_id="local-2")

    assert slots(database) == [("deferred", "catch-up", own(DUE))]
    assert arrived.kind is Became.STARTED


def test_every_instant_that_leads_to_no_run_leaves_its_delivery_too(database, schedules):
    known = synced(
        schedules, MONDAY, an_entry(missed=Missed.ONCE), an_entry("b", missed=Missed.SKIP, index=1)
    )
    planned(schedules, known, MONDAY + 2 * DAY)
    synced(
        schedules, MONDAY + 3 * DAY, an_entry(github=True)
    )  # the other is gone, with an instant not planned
    planned(schedules, standing(an_entry(github=True)), MONDAY + 3 * DAY)

    found = [each[:3] for each in told(database)]
    assert sorted(found, key=str) == [
        ("cron", "dropped", "late"),
        ("cron", "dropped", "late"),
        ("cron", "dropped", "made-up-by-a-newer"),
        ("cron", "dropped", "not-enforced-yet"),
        ("cron", "dropped", "removed"),
        ("cron", "started", "catch-up"),
    ]
    assert value(database, "SELECT count(*) FROM schedule_slots") == len(found)


def test_all_keeps_a_run_for_each_instant_by_default(database, schedules):
    known = synced(schedules, MONDAY, an_entry(missed=Missed.ALL))
    planned(schedules, known, MONDAY + 4 * DAY)

    assert count(database) == 4


def test_skip_starts_nothing_while_a_run_of_the_schedule_is_there(database, schedules):
    known = synced(schedules, MONDAY, an_entry(policy=WhileRunning.SKIP))
    planned(schedules, known, DUE)
    claim = goes(database)

    planned(schedules, known, DUE + DAY)
    PostgresEndings(database).end(claim, End(Outcome.COMPLETED, "completed"), BoxEnd(exit_code=0))
    planned(schedules, known, DUE + 2 * DAY)

    assert slots(database) == [
        ("ran", None, own(DUE)),
        ("skipped", "while-running", None),
        ("ran", None, own(DUE + 2 * DAY)),
    ]
    assert told(database)[1] == ("cron", "skipped", "while-running", own(DUE))


def test_skip_holds_between_two_instants_that_are_planned_together(database, schedules):
    known = synced(schedules, MONDAY, an_entry(missed=Missed.ALL, policy=WhileRunning.SKIP))

    planned(schedules, known, MONDAY + 3 * DAY)

    assert [each[:2] for each in slots(database)] == [
        ("deferred", "catch-up"),
        ("skipped", "while-running"),
        ("skipped", "while-running"),
    ]


def test_skip_is_about_the_schedules_own_runs_not_about_what_a_person_asked_for(database, schedules):
    known = synced(schedules, MONDAY, an_entry(policy=WhileRunning.SKIP))
    asks(database)
    with database.transaction() as connection:
        connection.execute(text("UPDATE runs SET created_at = created_at - interval '1 hour'"))

    planned(schedules, known, DUE)

    assert slots(database) == [("ran", None, own(DUE))]


def test_supersede_stops_the_run_that_goes_on_and_starts_another(database, schedules):
    known = synced(schedules, MONDAY, an_entry(policy=WhileRunning.SUPERSEDE))
    planned(schedules, known, DUE)
    goes(database)

    planned(schedules, known, DUE + DAY)
    planned(schedules, known, DUE + 2 * DAY)  # one waits already: it is the newest

    assert value(database, "SELECT stop_reason FROM runs WHERE public_id = :id", id=own(DUE)) == "superseded"
    assert slots(database) == [
        ("ran", None, own(DUE)),
        ("ran", None, own(DUE + DAY)),
        ("ran", "coalesced", own(DUE + DAY)),
    ]
    assert [each[1] for each in told(database)] == ["started", "superseding", "coalesced"]


def test_supersede_ends_runs_that_are_to_be_tried_again_with_what_they_hold(database, schedules):
    entries = [an_entry(f"s{n}", policy=WhileRunning.SUPERSEDE, index=n) for n in range(3)]
    known = synced(schedules, MONDAY, *entries)
    planned(schedules, known, DUE)
    for _ in entries:
        claim = goes(database)
        assert PostgresEndings(database).again(claim, Again("provider-failed", 600), BoxEnd(exit_code=1))

    planned(schedules, known, DUE + DAY)

    ended = "SELECT count(*) FROM runs WHERE state = 'ended' AND reason = 'superseded'"
    assert value(database, ended) == 3
    assert value(database, "SELECT count(*) FROM runs WHERE state = 'queued'") == 3
    assert_ledger_is_exact(database)


def test_an_edit_of_the_policy_takes_effect(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    edited = synced(schedules, MONDAY, an_entry(policy=WhileRunning.SKIP))

    assert edited.revision != known.revision
    planned(schedules, edited, DUE)
    planned(schedules, edited, DUE + DAY)
    assert slots(database)[1][:2] == ("skipped", "while-running")


@contextmanager
def heard(database, dies_at=None):
    """The statements that are said meanwhile; before the one of this number the process is gone."""
    said = []

    def hear(*_):
        said.append(1)
        if len(said) == dies_at:
            raise KilledError

    event.listen(database._engine, "before_cursor_execute", hear)
    try:
        yield said
    finally:
        event.remove(database._engine, "before_cursor_execute", hear)


def test_whatever_dies_a_delivery_is_there_exactly_with_its_slot(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    with heard(database) as said:
        schedules.plan(known, DUE - HOUR)  # how many statements find nothing due

    for dies_at in range(len(said) + 1, 40):
        with heard(database, dies_at), suppress(KilledError):
            schedules.plan(known, DUE)
        tables = ("deliveries", "schedule_slots", "runs")
        there = [value(database, f"SELECT count(*) FROM {table}") for table in tables]
        assert there in ([0, 0, 0], [1, 1, 1])
        if there[0]:
            break
    assert len(told(database)) == 1
    assert dies_at > len(said) + 8, "it died at each of its statements"


def test_many_instants_take_as_many_statements_as_few(database, schedules):
    """A statement with many rows is one, and one trip to Postgres."""
    counts = []
    for many in (1, 40):
        entries = [an_entry(f"{many}-{n}", policy=list(WhileRunning)[n % 4], index=n) for n in range(many)]
        known = synced(schedules, MONDAY, *entries)
        for each in entries:
            asks(database, each.id, f"local-{each.id}")
        with heard(database) as said:
            schedules.plan(known, DUE)
        counts.append(len(said))

    assert counts[1] <= counts[0] + 1  # a look at live runs, where a policy asks for it


def test_a_cancelled_request_leaves_the_instant_its_own_run(database, schedules):
    known = synced(schedules, MONDAY, an_entry())
    arrived = asks(database)
    cancel(database, arrived.run_id, actor="ada@h1")

    planned(schedules, known, DUE)

    assert slots(database) == [("ran", None, own(DUE))]


def test_edits_of_late_schedules_lock_their_subjects_in_one_order_first(database, schedules):
    entries = [an_entry(f"s{n}", index=n) for n in range(4)]
    synced(schedules, MONDAY, *entries)
    locks = []

    def hear(_connection, _cursor, statement, parameters, *_):
        if "INTO subjects" in statement:
            locks.append(list(parameters["keys"]))

    event.listen(database._engine, "before_cursor_execute", hear)
    synced(schedules, DUE, *(an_entry(f"s{n}", "0 5 * * *", index=n) for n in range(4)))
    event.remove(database._engine, "before_cursor_execute", hear)

    assert [len(each) for each in locks] == [4, 1, 1, 1, 1]
    assert value(database, "SELECT count(*) FROM schedule_slots WHERE state = 'ran'") == 4
