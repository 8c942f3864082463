"""A host that is gone: its runs are lost, its slots free, its money kept."""

import pytest
from sqlalchemy import text

from pidispatch.errors import StaleEpoch
from pidispatch.store import forgetting
from pidispatch.store.forgetting import HostAlive, NoSuchHost
from pidispatch.store.read import history
from pidispatch.store.read.schedule_history import latest_slots, schedules_of
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import (
    HOST,
    a_boxed_run,
    a_host,
    a_run,
    an_admitted_run,
    assert_ledger_is_exact,
    row,
    value,
)
from tests.support.calls import opened
from tests.support.timed import an_entry, synced, the_schedules
from tests.support.wallclock import utc


def silence(database, seconds):
    with database.transaction() as connection:
        for table in ("hosts", "workers"):
            connection.execute(
                text(f"UPDATE {table} SET heartbeat_at = now() - make_interval(secs => :s)"), {"s": seconds}
            )


def a_run_with_its_go(database):
    claim = a_boxed_run(database)
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, claim.attempt, "c0ffee" * 2)
    return claim


def test_its_runs_are_lost_and_keep_what_they_may_have_spent(database):
    a_host(database)
    claim = a_run_with_its_go(database)
    opened(
        PostgresCallLedger(database),
        claim.run_id,
        claim.attempt,
        provider="scripted",
        model="happy",
        api="openai-completions",
    )
    without_go = an_admitted_run(database).run_id
    waiting = a_run(database)
    silence(database, 61)

    lost = forgetting.forget_host(database, HOST, actor="ada@h2")

    assert len(lost) == 2
    for run_id, state in ((claim.run_id, "settled"), (without_go, "released")):
        ended = row(database, "SELECT state, outcome, reason, why FROM runs WHERE id = :id", id=run_id)
        assert ended == {"state": "ended", "outcome": "failed", "reason": "lost", "why": "host-forgotten"}
        assert value(database, "SELECT state FROM reservations WHERE run_id = :id", id=run_id) == state
    assert value(database, "SELECT state FROM provider_calls") == "assumed"
    assert value(database, "SELECT state FROM runs WHERE id = :id", id=waiting) == "queued"
    assert value(database, "SELECT count(*) FROM workers") == 0
    assert_ledger_is_exact(database)
    written = row(database, "SELECT actor, action, subject, detail FROM audit_log")
    assert (written["action"], written["subject"], written["detail"]) == (
        "forget-host",
        HOST,
        {"lost": list(lost)},
    )


def test_whoever_comes_back_finds_its_claim_stale(database):
    a_host(database)
    claim = a_run_with_its_go(database)
    silence(database, 61)
    forgetting.forget_host(database, HOST, actor="ada@h2")

    with pytest.raises(StaleEpoch):
        Runs(database).finishing(claim)
    assert a_host(database) == value(database, "SELECT installation FROM hosts")  # its boxes are still ours


def test_a_host_that_beat_within_a_minute_is_not_forgotten(database):
    a_host(database)
    claim = a_run_with_its_go(database)
    silence(database, 55)

    with pytest.raises(HostAlive):
        forgetting.forget_host(database, HOST, actor="ada@h2")
    with pytest.raises(NoSuchHost):
        forgetting.forget_host(database, "nobody", actor="ada@h2")
    assert value(database, "SELECT state FROM runs WHERE id = :id", id=claim.run_id) == "running"


@pytest.mark.parametrize(("seconds", "unreachable"), [(25, False), (35, True)])
def test_a_run_is_unreachable_after_30_s_of_silence_and_keeps_its_slot(database, seconds, unreachable):
    a_host(database)
    claim = a_run_with_its_go(database)
    waiting = a_run(database)
    silence(database, seconds)

    assert history.run_record(database, claim.run_id).unreachable is unreachable
    assert history.run_record(database, waiting).unreachable is False
    assert value(database, "SELECT state FROM runs WHERE id = :id", id=claim.run_id) == "running"
    assert value(database, "SELECT state FROM reservations") == "held"


def test_the_schedules_of_a_host_that_is_gone_end_and_what_had_come_is_skipped(database):
    a_host(database)
    schedules = the_schedules(database)
    synced(schedules, utc(2026, 5, 4), an_entry())
    with database.transaction() as connection:
        for table in ("hosts", "workers"):
            connection.exec_driver_sql(f"UPDATE {table} SET heartbeat_at = now() - interval '5 minutes'")
        connection.exec_driver_sql(
            "UPDATE schedules SET planned_until = date_trunc('day', now()) - interval '1 day',"
            " next_at = date_trunc('day', now()) - interval '21 hours 30 minutes'"
        )

    forgetting.forget_host(database, "h1", actor="me")

    assert schedules_of(database) == []
    slots = latest_slots(database, "nightly")
    assert {(slot.state, slot.reason) for slot in slots} == {("skipped", "removed")}
    assert value(database, "SELECT count(*) FROM runs") == 0
    synced(schedules, utc(2026, 5, 4), an_entry())
    assert [each.id for each in schedules_of(database)] == ["nightly"]  # the host came back
