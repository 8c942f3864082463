"""Each fault is red exactly when its facts say so, and nothing else is."""

from datetime import UTC, datetime, timedelta

import pytest

from pidispatch.domain.disks import GIB, FileSystem
from pidispatch.domain.health import Facts, FaultWord, RedisFacts, RowFacts, judge, unanswered
from pidispatch.domain.healthrows import HostFacts, OpenCall, Overdue, Passing, Stopping, Unattended
from pidispatch.domain.run import State

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def ago(seconds):
    return None if seconds is None else NOW - timedelta(seconds=seconds)


def a_host(*, worker=3600, reconciled=2, heartbeat=1, used=0, machines=1):
    """Ages in seconds; `worker` None is a host without a live worker."""
    return HostFacts("h1", used, ago(worker), ago(heartbeat), ago(reconciled), machines)


def words(**rows):
    found = judge(Facts("h1", rows=RowFacts(NOW, **rows)))
    return [str(fault.word) for fault in found.red]


def test_nothing_asked_and_nothing_wrong_is_well():
    assert judge(Facts("h1")).ok
    assert judge(Facts("h1", redis=RedisFacts(), gateway_ready=True, rows=RowFacts(NOW, [a_host()]))).ok


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (a_host(reconciled=29), []),
        (a_host(reconciled=31), ["not-reconciled"]),
        (a_host(reconciled=None), ["not-reconciled"]),
        (a_host(reconciled=None, worker=10), []),  # it has only just started
        (a_host(reconciled=86_400, worker=10), []),  # likewise, after a day of rest
        (a_host(reconciled=86_400, worker=None, heartbeat=86_400), []),  # nobody there, nothing to look after
        (a_host(worker=None, heartbeat=29, used=2), []),
        (a_host(worker=None, heartbeat=31, used=2), ["unreachable"]),
        (a_host(worker=None, heartbeat=31, reconciled=31, used=1), ["unreachable"]),
    ],
)
def test_a_host_is_looked_after_or_red(host, expected):
    assert words(hosts=[host]) == expected


@pytest.mark.parametrize(("age", "expected"), [(29, []), (31, ["bells-silent"])])
def test_a_run_that_could_start_does_not_wait_long(age, expected):
    assert words(overdue=[Overdue("local-1", "h1", ago(age))]) == expected


@pytest.mark.parametrize(("age", "expected"), [(29, []), (31, ["stop-unconfirmed"])])
def test_a_stop_is_confirmed_in_time(age, expected):
    assert words(stopping=[Stopping("local-1", "h1", ago(age))]) == expected


@pytest.mark.parametrize(
    ("state", "in_state", "open_for", "expected"),
    [
        (State.RUNNING, 3600, 899, []),
        (State.RUNNING, 3600, 901, ["call-held"]),
        (State.STOPPING, 40, 60, []),
        (State.FINISHING, 59, 60, []),
        (State.FINISHING, 61, 62, ["call-held"]),
        (State.ENDED, 0, 1, ["call-held"]),
        (State.QUEUED, 0, 1, ["call-held"]),
        (State.DEFERRED, 0, 1, ["call-held"]),
    ],
)
def test_a_call_is_open_only_while_its_run_goes_on(state, in_state, open_for, expected):
    assert words(calls=[OpenCall("local-1", state, ago(in_state), ago(open_for))]) == expected


@pytest.mark.parametrize(
    ("redis", "expected"),
    [
        (RedisFacts(), []),
        (RedisFacts(policy="allkeys-lru"), ["redis-evicts"]),
        (RedisFacts(append_only=False), ["redis-forgets"]),
        (RedisFacts(policy="volatile-ttl", append_only=False), ["redis-evicts", "redis-forgets"]),
        (RedisFacts(problem="Redis does not answer", append_only=False), ["redis-silent"]),
    ],
)
def test_redis_keeps_its_bells_or_is_red(redis, expected):
    assert [str(fault.word) for fault in judge(Facts("h1", redis=redis)).red] == expected


@pytest.mark.parametrize(
    ("ready", "hosts", "red"),
    [
        (None, [a_host()], False),
        (True, [a_host()], False),
        (False, [a_host()], True),
        (False, [a_host(worker=None)], False),  # without a worker here nobody needs it
        (False, [], False),
    ],
)
def test_a_gateway_is_missed_where_a_worker_lives(ready, hosts, red):
    found = judge(Facts("h1", gateway_ready=ready, rows=RowFacts(NOW, hosts)))

    assert [fault.word for fault in found.red] == [FaultWord.GATEWAY_SILENT] * red


def test_without_rows_a_silent_gateway_is_told_beside_the_silent_database():
    found = judge(Facts("h1", database="Postgres does not answer: refused", gateway_ready=False))

    assert [fault.word for fault in found.red] == [FaultWord.DATABASE_SILENT, FaultWord.GATEWAY_SILENT]
    assert found.red[0].sentence == "Postgres does not answer: refused"


def test_another_schema_is_red():
    assert [fault.word for fault in judge(Facts("h1", schema="it is behind")).red] == [
        FaultWord.SCHEMA_DIFFERS
    ]


def test_a_check_that_does_not_end_is_red_itself():
    assert [fault.word for fault in unanswered(5).red] == [FaultWord.CHECK_SILENT]


def test_many_runs_are_one_fault_of_bounded_length():
    found = judge(
        Facts("h1", rows=RowFacts(NOW, stopping=[Stopping(f"local-{n}", "h1", ago(99)) for n in range(80)]))
    )

    assert len(found.red) == 1
    assert "local-4 on h1 and 75 more" in found.red[0].sentence


def test_every_fault_says_a_way_out():
    rows = RowFacts(
        NOW,
        [a_host(reconciled=99, machines=2), a_host(worker=None, heartbeat=99, used=1)],
        [Overdue("a", "h1", ago(99))],
        [Stopping("b", "h1", ago(99))],
        [OpenCall("c", State.ENDED, ago(1), ago(1))],
        [Unattended("d", "h1")],
        [Passing("e", "h1", State.FINISHING, ago(99))],
    )
    facts = Facts(
        "h1",
        "down",
        "old",
        RedisFacts(policy="x", append_only=False),
        gateway_ready=False,
        rows=rows,
        disks=[FileSystem(1, ("the home",), "/", size=100 * GIB, free=GIB)],
    )
    silent = Facts("h1", redis=RedisFacts(problem="gone"))
    unwritable = Facts("h1", redis=RedisFacts(unwritable="READONLY"))
    red = [*judge(facts).red, *judge(silent).red, *judge(unwritable).red, *unanswered(5).red]

    assert {fault.word for fault in red} == set(FaultWord)
    assert all(fault.sentence and fault.way_out for fault in red)
