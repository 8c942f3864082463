"""The rows that decide what is red, on a real Postgres."""

import pytest

from pidispatch.domain.health import Facts, FaultWord, judge
from pidispatch.store.health import row_facts
from pidispatch.store.measures import measure_today
from tests.cli.lives import FAILED, begin, call, end
from tests.store.builders import a_boxed_run, a_host, a_run, an_admitted_run
from tests.support.timed import an_entry, synced, the_schedules
from tests.support.wallclock import utc

LATER = "interval '40 seconds'"


def red(database):
    found = judge(Facts("h1", rows=row_facts(database)))
    return [fault.word for fault in found.red]


def do(database, *statements):
    with database.transaction() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def a_reconciling_host(database, **more):
    """A host that has worked for an hour."""
    a_host(database, **more)
    do(
        database,
        "UPDATE workers SET started_at = now() - interval '1 hour', heartbeat_at = now() + interval '1 hour'",
        "UPDATE hosts SET reconciled_at = now()",
    )


def everything_waits(database):
    """As if nothing had been touched for 40 s."""
    do(
        database,
        f"UPDATE runs SET state_since = state_since - {LATER}, queued_at = queued_at - {LATER},"
        f" admitted_at = admitted_at - {LATER}, ended_at = ended_at - {LATER}",
    )


def test_an_idle_host_is_well(database):
    a_reconciling_host(database)

    assert red(database) == []


def test_a_database_without_a_host_is_well(database):
    assert red(database) == []


def test_a_run_that_could_start_and_does_not_is_overdue(database):
    a_reconciling_host(database)
    a_run(database)
    assert red(database) == []
    everything_waits(database)

    assert red(database) == [FaultWord.BELLS_SILENT]


@pytest.mark.parametrize(
    "reason",
    [
        "UPDATE scopes SET paused_at = now() WHERE key = '*'",
        "UPDATE scopes SET paused_at = now() WHERE key LIKE 'folder:%%'",
        "UPDATE runs SET state = 'deferred', cause = 'paused', not_before = now() + interval '1 minute'",
        "UPDATE runs SET state = 'deferred', cause = 'paused', not_before = now() - interval '1 second'",
        "UPDATE workers SET heartbeat_at = now() - interval '20 seconds'",
        "UPDATE workers SET started_at = now() - interval '5 seconds'",
        "INSERT INTO audit_log (actor, action, subject) VALUES ('me', 'resume', '*')",
    ],
)
def test_a_run_with_a_reason_to_wait_is_not(database, reason):
    a_reconciling_host(database)
    a_run(database)
    everything_waits(database)
    do(database, reason)

    assert red(database) == []


def test_a_full_host_is_no_fault_nor_is_one_that_just_admitted(database):
    a_reconciling_host(database, capacity=2)
    an_admitted_run(database)
    a_run(database)
    do(database, f"UPDATE runs SET state_since = state_since - {LATER} WHERE state = 'queued'")
    assert red(database) == []

    do(database, f"UPDATE runs SET admitted_at = admitted_at - {LATER}")
    assert red(database) == [FaultWord.BELLS_SILENT]

    do(database, "UPDATE hosts SET capacity = 1")
    assert red(database) == []


def test_room_that_was_just_made_gives_the_next_its_time(database):
    a_reconciling_host(database)
    a_run(database, folder="/repos/same")
    a_run(database, folder="/repos/same")
    claim = begin(database)
    a_reconciling_host(database)
    everything_waits(database)
    assert red(database) == []  # the folder is in use

    end(database, claim)
    assert red(database) == []

    do(
        database,
        "ALTER TABLE runs DISABLE TRIGGER USER",  # an end is final
        f"UPDATE runs SET ended_at = ended_at - {LATER} WHERE state = 'ended'",
    )
    assert red(database) == [FaultWord.BELLS_SILENT]


def test_a_stop_that_nobody_confirms(database):
    a_reconciling_host(database)
    a_boxed_run(database)
    do(database, "UPDATE runs SET state = 'stopping', state_since = clock_timestamp()")
    assert red(database) == []
    everything_waits(database)

    assert red(database) == [FaultWord.STOP_UNCONFIRMED]


def test_a_call_that_stays_open(database):
    a_run(database)
    claim = begin(database)
    a_reconciling_host(database)
    do(
        database,
        "INSERT INTO provider_calls (run_id, attempt, host, provider, model, api)"
        f" VALUES ({claim.run_id}, 1, 'h1', 'scripted', 'happy', 'openai-completions')",
    )
    assert red(database) == []

    do(database, "UPDATE provider_calls SET opened_at = opened_at - interval '16 minutes'")
    assert red(database) == [FaultWord.CALL_HELD]


def test_a_host_that_went_silent_with_a_run(database):
    a_boxed_run_host = a_host(database)
    assert a_boxed_run_host
    a_boxed_run(database)
    do(
        database,
        "DELETE FROM workers",
        f"UPDATE hosts SET heartbeat_at = heartbeat_at - {LATER}, reconciled_at = now() - {LATER}",
    )

    assert red(database) == [FaultWord.UNREACHABLE]


def test_a_worker_that_compares_nothing(database):
    a_reconciling_host(database)
    do(database, f"UPDATE hosts SET reconciled_at = now() - {LATER}")

    assert red(database) == [FaultWord.NOT_RECONCILED]


def test_today_is_counted_by_its_ends(database):
    for number in range(3):
        a_run(database)
        claim = begin(database, f"{number:064x}")
        call(database, claim, tokens_in=100, tokens_out=10)
        if number:
            end(database, claim)
        else:
            end(database, claim, FAILED, code=1)
    a_run(database)
    do(database, "UPDATE runs SET queued_at = queued_at - interval '1 hour' WHERE state = 'queued'")

    today = measure_today(database)

    assert today.ended == {("completed", "completed"): 2, ("failed", "infra"): 1}
    assert today.tokens == {"input": 300, "output": 30, "cache_read": 0, "cache_write": 0}
    assert 3600 <= today.oldest_queued_seconds < 5400


def a_schedule(database, **more):
    schedules = the_schedules(database, **more)
    synced(schedules, utc(2026, 5, 4), an_entry())
    return schedules


def silent(database, seconds):
    do(database, f"UPDATE hosts SET heartbeat_at = now() - interval '{seconds} seconds'")


def test_a_schedule_of_a_silent_host_is_red_once_no_other_took_it_over(database):
    a_reconciling_host(database)
    a_schedule(database)
    silent(database, 90)
    assert red(database) == []
    silent(database, 100)

    (fault,) = judge(Facts("h1", rows=row_facts(database))).red

    assert fault.word == FaultWord.SCHEDULE_UNATTENDED
    assert "of schedules: nightly of h1" in fault.sentence
    assert "start a worker on h1, or put the entries into the triggers file of a host" in fault.way_out


def test_a_schedule_that_another_host_took_over_or_whose_entry_is_gone_is_no_fault(database):
    a_reconciling_host(database)
    a_schedule(database)
    silent(database, 100)
    a_host(database, host="h2")
    do(database, "UPDATE workers SET heartbeat_at = now() + interval '1 hour'")
    do(database, "UPDATE hosts SET reconciled_at = now() + interval '1 hour'")

    other = a_schedule(database, host="h2")
    assert red(database) == []

    silent(database, 100)
    assert red(database) == [FaultWord.SCHEDULE_UNATTENDED]
    synced(other, utc(2026, 5, 4, 1))
    assert red(database) == []
