"""What is asked of a run has a column for each of its fields, and each such column is a field."""

from dataclasses import fields, replace

from sqlalchemy import text

from pidispatch.domain.ask import Ask, Kinship, Terms
from pidispatch.domain.run import NewRun
from pidispatch.store.models import Base
from pidispatch.store.submissions import (
    ALONE,
    AS_ASKED,
    IN_RUN_WAITS,
    NESTED,
    OWN,
    PAYLOADS,
    RUNS,
    add_run,
    kept,
)
from tests.store.builders import a_host, a_run, row, try_next
from tests.support.asking import asking

# What becomes of a run, which nobody asks for. A new column is either here or a field of what was asked.
NOT_ASKED = [
    "id",
    "state",
    "epoch",
    "attempt",
    "outcome",
    "result",
    "reason",
    "why",
    "remarks",
    "blocked_by",
    "waits_window",
    "waits_room_at",
    "mutex_within",
    "folder_owner",
    "project",
    "backend",
    "host",
    "worker",
    "created_at",
    "queued_at",
    "state_since",
    "looked_at",
    "admitted_at",
    "started_at",
    "ended_at",
    "deadline_at",
    "stop_requested_at",
    "stop_reason",
    "exit_code",
    "turns",
    "calls",
    "tokens_in",
    "tokens_out",
    "tokens_cache_read",
    "tokens_cache_write",
    "tokens_total",
    "cost_micros",
    "cost_class",
    "session_resumed",
    "session_reason",
    "session_bytes",
    "chain_refused",
    "chain_answers",
    "admission",
    "reported",
]
NOT_ASKED_OF_PAYLOADS = {"run_id", "created_at", "expires_at"}
EVERYTHING = Ask(
    flow="tidy",
    command="tidy up",
    provider="scripted",
    model="happy",
    image="pi-job:test",
    priority=7,
    max_turns=3,
    max_tokens=40_000,
    cost_cap_micros=500_000,
    allowed_models=("scripted/happy", "a/b"),
    excluded_tools=("bash",),
    egress_hosts=("example.com", "@npm"),
    skills_dir=b"/srv/sk\xfflls",
)

ASKED = {field.name: getattr(EVERYTHING, field.name) for field in fields(Ask)}
IN_FORCE = "SELECT cost_cap_micros, allowed_models FROM runs WHERE id = :id"


def names(kind):
    return {field.name for field in fields(kind)}


def test_each_field_has_its_column_in_one_of_the_two_tables():
    asked = {*OWN, *names(Ask), *names(Kinship), *AS_ASKED.values()} - IN_RUN_WAITS

    runs, payloads = (set(Base.metadata.tables[each.name].c.keys()) for each in (RUNS, PAYLOADS))

    assert runs - set(NOT_ASKED) | payloads - NOT_ASKED_OF_PAYLOADS == asked
    assert asked & set(NOT_ASKED) == set()
    assert not (runs & payloads & asked)
    assert set(RUNS.c.keys()) - asked == {"id", "state"} <= runs >= set(RUNS.c.keys())
    assert set(PAYLOADS.c.keys()) - asked == {"run_id"} <= payloads >= set(PAYLOADS.c.keys())


def test_no_field_stands_in_two_of_the_values():
    every = [*OWN, *names(Ask), *names(Kinship)]

    assert len(set(every)) == len(every)
    assert set(OWN) | set(NESTED) == names(NewRun)


def test_what_is_in_force_has_a_column_for_each_field():
    assert names(Terms) <= set(RUNS.c.keys()) & names(Ask)


def test_the_example_asks_for_everything():
    assert all(getattr(EVERYTHING, name) != getattr(Ask(), name) for name in names(Ask))
    assert {name for name, _ in EVERYTHING.of_its_own()} == names(Ask) - {"flow", "command", "priority"}


def everything_of(database, run_id):
    with database.transaction() as connection:
        return kept(connection, run_id)


def test_all_that_was_asked_is_read_back_whatever_came_to_be_in_force(database):
    a_host(database)
    run_id = a_run(database, **ASKED)
    assert everything_of(database, run_id).ask == EVERYTHING

    try_next(database, cost_cap_micros=1, allowed_models=("a/b",), max_turns=3, max_tokens=40_000)

    assert row(database, IN_FORCE, id=run_id) == {"cost_cap_micros": 1, "allowed_models": ["a/b"]}
    assert everything_of(database, run_id).ask == EVERYTHING


def test_a_run_that_is_written_again_is_the_same_but_for_what_is_its_own(database):
    run_id = a_run(
        database,
        **ASKED,
        title=b"A title",
        body=b"A body",
        subject="s",
        one_shot="k",
        trigger_id="t",
        trigger_index=3,
        replica=1,
        replicas=2,
    )
    old = everything_of(database, run_id)
    with database.transaction() as connection:
        again = add_run(connection, replace(old, public_id="again"))
        lines = [
            connection.execute(text("SELECT * FROM runs WHERE id = :id"), {"id": each}).mappings().one()
            for each in (run_id, again)
        ]

    assert everything_of(database, again) == asking(old, public_id="again")
    differs = {name for name in lines[0] if lines[0][name] != lines[1][name]}
    times = {"created_at", "queued_at", "state_since"}
    assert differs - times == {"id", "public_id"} | {name for name in ALONE if lines[0].get(name) is not None}
