"""A run that repeats another: the same in everything but its name, its limits and its numbers."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from pidispatch.domain.triggers.arrival import Became
from pidispatch.domain.triggers.trigger import WhileRunning
from pidispatch.store.runs import cancelling, requeueing
from pidispatch.store.runs.requeueing import CannotRequeue
from pidispatch.store.triggers.arrivals import Arrivals
from tests.store.arriving import ISSUE, a_folder_arrival, an_arrival
from tests.store.builders import a_host, a_run, an_admitted_run, row, value
from tests.support.minutes import early_in_a_minute

SAME = (
    "SELECT r.kind, r.target, r.scope, r.pinned_host, r.trigger_type, r.flow, r.provider, r.model, r.image, r.max_turns,"
    " r.priority, p.folder, p.folder_given, p.event FROM runs r JOIN run_payloads p ON p.run_id = r.id WHERE r.public_id = :id"
)

BOUNDS = (
    "SELECT r.cost_cap_micros, r.cost_cap_asked, r.allowed_models, r.models_asked, r.excluded_tools, p.skills_dir"
    " FROM runs r JOIN run_payloads p ON p.run_id = r.id WHERE r.public_id = :id"
)


def requeue(database, run_id, task=None):
    return requeueing.requeue(database, run_id, actor="ada@h1", task=task)


def an_ended_run(database, **asked):
    run_id = a_run(database, **asked)
    cancelling.cancel(database, run_id, actor="ada@h1")
    return run_id


def public_id(database, run_id):
    return value(database, "SELECT public_id FROM runs WHERE id = :id", id=run_id)


def made_earlier(database):
    with database.transaction() as connection:
        connection.execute(text("UPDATE runs SET created_at = created_at - interval '1 minute'"))


def test_a_copy_is_queued_and_says_what_it_repeats(database):
    run_id = an_ended_run(database, priority=7, task=b"do \x00 it")

    made = requeue(database, run_id)

    assert made.public_id.startswith("local-")
    assert len(made.public_id) == len("local-") + 16
    assert row(database, SAME, id=made.public_id) == row(database, SAME, id=public_id(database, run_id))
    copy = row(
        database,
        "SELECT r.state, r.requeue_of, r.attempt, r.host, r.outcome, p.task, p.task_bytes, p.expires_at"
        " FROM runs r JOIN run_payloads p ON p.run_id = r.id WHERE r.public_id = :id",
        id=made.public_id,
    )
    assert copy == {
        "state": "queued",
        "requeue_of": run_id,
        "attempt": 0,
        "host": None,
        "outcome": None,
        "task": b"do \x00 it",
        "task_bytes": 7,
        "expires_at": None,
    }
    written = row(database, "SELECT actor, action, subject, detail FROM audit_log WHERE action = 'requeue'")
    assert (written["actor"], written["subject"]) == ("ada@h1", public_id(database, run_id))


def test_a_copy_asks_for_the_bounds_that_were_asked_for_and_not_for_those_that_were_in_force(database):
    a_host(database)
    asked = {"cost_cap_micros": 9, "allowed_models": ("scripted/happy",), "excluded_tools": ("bash",)}
    claim = an_admitted_run(database, skills_dir=b"/srv/skills", **asked)
    in_force = "UPDATE runs SET state = 'ended', outcome = 'failed', reason = 'infra', ended_at = now(), cost_cap_micros = 2"
    with database.transaction() as connection:
        connection.exec_driver_sql(f"{in_force}, allowed_models = ARRAY['x/y']")
        connection.exec_driver_sql("UPDATE run_payloads SET expires_at = now() + interval '1 day'")

    made = requeue(database, claim.run_id)

    assert row(database, BOUNDS, id=made.public_id) == {
        "cost_cap_micros": 9,
        "cost_cap_asked": 9,
        "allowed_models": ["scripted/happy"],
        "models_asked": ["scripted/happy"],
        "excluded_tools": ["bash"],
        "skills_dir": b"/srv/skills",
    }


def test_asking_twice_within_a_minute_is_one_run_and_later_another(database):
    early_in_a_minute()
    run_id = an_ended_run(database)
    first, second = requeue(database, run_id), requeue(database, run_id)

    made_earlier(database)
    third = requeue(database, run_id)

    assert (second.public_id, second.duplicate) == (first.public_id, True)
    assert not third.duplicate
    assert value(database, "SELECT count(*) FROM runs WHERE requeue_of = :id", id=run_id) == 2


def test_another_task_is_another_request(database):
    run_id = an_ended_run(database)
    requeue(database, run_id)

    made = requeue(database, run_id, b"something else")

    assert not made.duplicate
    kept = row(
        database,
        "SELECT p.task, p.task_bytes FROM run_payloads p JOIN runs r ON r.id = p.run_id WHERE r.public_id = :id",
        id=made.public_id,
    )
    assert kept == {"task": b"something else", "task_bytes": 14}


def test_a_copy_can_be_repeated_too(database):
    made = requeue(database, an_ended_run(database))
    copy = value(database, "SELECT id FROM runs WHERE public_id = :id", id=made.public_id)
    cancelling.cancel(database, copy, actor="ada@h1")

    assert requeue(database, copy).public_id != made.public_id


def test_a_run_that_has_not_ended_is_not_repeated(database):
    a_host(database)
    waiting, running = a_run(database), None
    running = an_admitted_run(database, priority=9).run_id

    for run_id in (waiting, running):
        with pytest.raises(CannotRequeue, match="has not ended"):
            requeue(database, run_id)


@pytest.mark.parametrize(
    "gone", ["DELETE FROM run_payloads", "UPDATE run_payloads SET expires_at = now() - interval '1 s'"]
)
def test_what_was_deleted_cannot_be_repeated(database, gone):
    run_id = an_ended_run(database)
    with database.transaction() as connection:
        connection.execute(text(gone))

    with pytest.raises(CannotRequeue, match="deleted seven days after its end"):
        requeue(database, run_id)
    assert value(database, "SELECT count(*) FROM runs") == 1


def an_ended_arrival(database, arrival):
    arrived = Arrivals(database).arrive(arrival)
    cancelling.cancel(database, arrived.run_id, actor="ada@h1")
    return arrived.run_id


def about(database, made):
    return row(database, "SELECT subject, one_shot, mutex FROM runs WHERE public_id = :id", id=made.public_id)


def test_a_copy_is_about_the_same_and_spends_no_one_shot(database):
    run_id = an_ended_arrival(database, an_arrival(one_shot="once"))

    made = requeue(database, run_id)

    assert about(database, made) == {"subject": ISSUE.key, "one_shot": None, "mutex": ISSUE.mutex}


def test_another_task_in_a_folder_is_about_something_else_but_not_on_an_issue(database):
    folder = an_ended_arrival(database, a_folder_arrival("cli"))
    issue = an_ended_arrival(database, an_arrival())

    assert about(database, requeue(database, folder, b"another"))["subject"] is None
    assert about(database, requeue(database, folder))["subject"] is not None
    assert about(database, requeue(database, issue, b"another"))["subject"] == ISSUE.key


def test_a_copy_was_asked_for_on_the_command_line_so_that_another_request_is_another_run(database):
    made = requeue(database, an_ended_arrival(database, a_folder_arrival("cli")))

    again, cron = (
        Arrivals(database).arrive(replace(a_folder_arrival(source), while_running=WhileRunning.PARALLEL))
        for source in ("cli", "cron")
    )

    told = row(
        database, "SELECT source, event, decision FROM deliveries WHERE delivery_id = :id", id=made.public_id
    )
    assert told == {"source": "cli", "event": "requeue", "decision": "started"}
    assert again.kind is Became.STARTED
    assert cron.kind is Became.COALESCED


def test_a_copy_may_reach_what_its_original_might(database):
    run_id = an_ended_run(database)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET egress_hosts = ARRAY['a.example'] WHERE id = :id"), {"id": run_id}
        )

    made = requeue(database, run_id)

    kept = value(database, "SELECT egress_hosts FROM runs WHERE public_id = :id", id=made.public_id)
    assert kept == ["a.example"]
