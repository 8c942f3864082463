"""Breakers as rows: every ending counts once, whoever counts and whoever dies, and what is open starts nothing."""

import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.limits.admission import Refused
from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.domain.triggers.breaker import Rules
from pidispatch.domain.triggers.trigger import Missed
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.runs.cancelling import cancel
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from pidispatch.store.triggers.breakers import NoSuchTrigger, breaker_of_run, breakers_of, close, read_open
from pidispatch.upkeep.breakers import BreakerKeeper
from tests.store.builders import HOST, WORKER, a_host, a_run, row, try_next, value
from tests.support.breaking import RULES, a_run_of, end_as, fail, open_one, some_breakers
from tests.support.timed import DAY, HOUR, MINUTE, an_entry, planned, synced, the_schedules
from tests.support.wallclock import utc

MONDAY = utc(2026, 5, 4)
QUARTER = timedelta(minutes=15)


@pytest.fixture
def breakers(database):
    a_host(database)
    return some_breakers(database)


def open_breakers(database):
    with database.transaction() as connection:
        return read_open(connection)


def uncounted(database):
    return value(database, "SELECT count(*) FROM uncounted_endings")


def notices(database):
    return value(database, "SELECT count(*) FROM audit_log WHERE action = 'breaker-open'")


def test_three_failures_open_it_and_one_notice_is_written(database, breakers):
    fail(database, times=2)
    assert breakers.count().changes == []
    fail(database)

    counted = breakers.count()

    (change,) = counted.changes
    assert (counted.endings, change.trigger_id, change.opened, change.failures) == (1, "nightly", True, 3)
    (found,) = open_breakers(database)
    assert (found.outcome, found.reason, found.failures, found.probe) == ("failed", "infra", 3, None)
    assert found.probe_at - found.opened_at == QUARTER
    assert row(database, "SELECT actor, action, subject, detail FROM audit_log") == {
        "actor": "pidispatch@h1",
        "action": "breaker-open",
        "subject": "nightly",
        "detail": {"reason": "infra", "failures": 3, "run": change.run},
    }
    fail(database, times=2)
    assert breakers.count().changes == []
    assert notices(database) == 1


def test_a_second_opening_has_a_notice_of_its_own(database, breakers):
    open_one(database)
    end_as(database, a_run_of(database), "completed", "completed")
    (closed,) = breakers.count().changes
    assert not closed.opened
    assert breakers_of(database, ["nightly"]) == {}
    open_one(database)

    assert notices(database) == 2


def test_endings_count_in_the_order_in_which_they_came(database, breakers):
    fail(database, times=2)
    end_as(database, a_run_of(database), "completed", "completed")
    fail(database, times=2)

    assert breakers.count().changes == []
    assert breakers_of(database, ["nightly"])["nightly"].failures == 2


def test_triggers_do_not_count_for_each_other(database, breakers):
    for name in ("a", "b", "c"):
        fail(database, name, 2)
    breakers.count()

    assert {name: found.failures for name, found in breakers_of(database, ["a", "b", "x"]).items()} == {
        "a": 2,
        "b": 2,
    }
    assert open_breakers(database) == []


@pytest.mark.parametrize("type_", ["cli", "api", "chain"])
def test_what_a_person_or_another_run_asked_for_is_not_counted(database, breakers, type_):
    end_as(database, a_run_of(database, type_=type_))
    end_as(database, a_run_of(database, trigger=None, type_="cron"))

    assert uncounted(database) == 0


@pytest.mark.parametrize("type_", ["cron", "label", "comment", "pull_request", "issue"])
def test_what_a_trigger_started_is_counted(database, breakers, type_):
    end_as(database, a_run_of(database, type_=type_))

    assert uncounted(database) == 1


def finished(database):
    run = a_run_of(database)
    _, answer = try_next(database)
    claim = Runs(database).finishing(answer.claim)
    assert Endings(database).end(claim, End(Outcome.FAILED, "lost"), BoxEnd())
    return run


def refused(database):
    run = a_run_of(database)
    admissions = Admissions(database, host=HOST, worker=WORKER)
    admissions.refuse(
        admissions.next_due([]),
        refusal=Refused("job-image-missing", None),
        provider=None,
        model=None,
        facts={"gates": {}},
    )
    return run


def cancelled(database):
    run = a_run_of(database)
    cancel(database, run, actor="me@h1")
    return run


@pytest.mark.parametrize("ending", [finished, refused, cancelled])
def test_every_way_to_end_leaves_its_note_with_the_ending(database, breakers, ending):
    run = ending(database)

    assert value(database, "SELECT state FROM runs WHERE id = :id", id=run) == "ended"
    assert value(database, "SELECT run_id FROM uncounted_endings") == run


class Died(Exception):
    pass


class Dying:
    """A connection whose process ends before its statement number `at`."""

    def __init__(self, connection, at):
        self._connection, self._left = connection, at

    def execute(self, *arguments):
        self._left -= 1
        if self._left < 0:
            raise Died
        return self._connection.execute(*arguments)


@pytest.mark.parametrize("at", range(7))
def test_a_counter_that_dies_at_any_statement_loses_and_doubles_nothing(database, breakers, monkeypatch, at):
    fail(database, times=3)
    fail(database, "other", 2)
    real = database.transaction

    class Mortal:
        def transaction(self):
            context = real()

            class Wrapped:
                def __enter__(self):
                    return Dying(context.__enter__(), at)

                def __exit__(self, *error):
                    return context.__exit__(*error)

            return Wrapped()

    with pytest.raises(Died):
        some_breakers(Mortal()).count()
    assert (uncounted(database), notices(database)) == (5, 0)
    assert open_breakers(database) == []

    assert breakers.count().endings == 5
    assert {name: each.failures for name, each in breakers_of(database, ["nightly", "other"]).items()} == {
        "nightly": 3,
        "other": 2,
    }
    assert (uncounted(database), notices(database)) == (0, 1)


COUNTER = """
import sys
from tests.support.breaking import some_breakers
from pidispatch.store.database import Database
breakers = some_breakers(Database(sys.argv[1]))
print("counting", flush=True)
while True:
    breakers.count()
"""


def test_counters_that_are_killed_lose_and_double_nothing(database, database_url, breakers):
    ended = 0
    for lives in (0.05, 0.13, 0.21):
        counter = subprocess.Popen([sys.executable, "-c", COUNTER, database_url], stdout=subprocess.PIPE)
        assert counter.stdout.readline() == b"counting\n"
        until = time.monotonic() + lives
        while time.monotonic() < until:
            fail(database)
            ended += 1
        counter.kill()
        counter.wait()
        counter.stdout.close()

    BreakerKeeper(breakers).count()

    assert (uncounted(database), notices(database)) == (0, 1)
    assert breakers_of(database, ["nightly"])["nightly"].failures == ended


def test_a_counter_that_another_is_at_work_beside_leaves_it_to_that_one(database, breakers):
    fail(database, times=3)
    with database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('pidispatch breakers', 0))"))

        assert breakers.count().endings == 0
    assert breakers.count().endings == 3


def test_more_endings_than_one_transaction_takes_are_all_counted(database, breakers, monkeypatch):
    monkeypatch.setattr("pidispatch.store.triggers.breakercount.MOST", 4)
    fail(database, times=11)

    BreakerKeeper(breakers).count()

    assert uncounted(database) == 0
    assert breakers_of(database, ["nightly"])["nightly"].failures == 11
    assert notices(database) == 1


def test_many_counters_beside_endings_and_plans_count_each_ending_once_and_never_wait_for_each_other(
    database, breakers
):
    """A deadlock would end one of them with an error; a lost or doubled count would show in the sum."""
    names = [f"s{n}" for n in range(4)]
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, *(an_entry(name, "* * * * *", index=n) for n, name in enumerate(names)))
    for name in names:
        open_one(database, name)
    faults, stop = [], threading.Event()

    def repeated(work):
        try:
            while not stop.is_set():
                work()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must tell
            faults.append(error)

    def end_some():
        try:
            for number in range(40):
                fail(database, names[number % 4])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must tell
            faults.append(error)

    moments = iter(range(1, 100_000))
    plan = lambda: schedules.plan(known, MONDAY + next(moments) * MINUTE)  # noqa: E731
    others = [
        threading.Thread(target=repeated, args=(work,))
        for work in (breakers.count, breakers.count, plan, plan)
    ]
    enders = [threading.Thread(target=end_some) for _ in range(3)]
    for thread in [*others, *enders]:
        thread.start()
    for thread in enders:
        thread.join(60)
    stop.set()
    for thread in others:
        thread.join(60)
    breakers.count()

    assert faults == []
    assert uncounted(database) == 0
    assert [found.failures for found in breakers_of(database, names).values()] == [33] * 4


def probe_at(database, moment):
    with database.transaction() as connection:
        connection.execute(text("UPDATE breakers SET opened_at = :at, probe_at = :at"), {"at": moment})


def slots(database, schedule="nightly"):
    with database.transaction() as connection:
        found = connection.execute(
            text("SELECT state, reason FROM schedule_slots WHERE schedule = :id ORDER BY planned_at"),
            {"id": schedule},
        )
        return [tuple(each) for each in found]


def test_a_schedule_with_an_open_breaker_skips_and_then_probes_once(database, breakers):
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, an_entry(pattern="* * * * *"), an_entry("other", "* * * * *"))
    open_one(database)
    probe_at(database, MONDAY + 3 * MINUTE)

    runs = [schedules.plan(known, MONDAY + n * MINUTE).runs for n in range(1, 6)]

    assert runs == [1, 1, 2, 1, 1]  # the other schedule is not held up
    assert slots(database) == [
        ("skipped", "breaker-open"),
        ("skipped", "breaker-open"),
        ("ran", None),
        ("skipped", "breaker-open"),
        ("skipped", "breaker-open"),
    ]
    probe = f"repeat:nightly:{int((MONDAY + 3 * MINUTE).timestamp())}000"
    assert breakers_of(database, ["nightly"])["nightly"].probe == probe


def test_a_probe_that_fails_doubles_the_wait_and_one_that_succeeds_lets_all_start(database, breakers):
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, an_entry(pattern="* * * * *"))
    open_one(database)
    probe_at(database, MONDAY)
    schedules.plan(known, MONDAY + MINUTE)
    probe = value(database, "SELECT r.id FROM runs r JOIN breakers b ON b.probe = r.public_id")
    end_as(database, probe)
    assert breakers.count().changes == []
    found = breakers_of(database, ["nightly"])["nightly"]
    assert (found.backoff_seconds, found.probe, notices(database)) == (1800, None, 1)

    probe_at(database, MONDAY)
    schedules.plan(known, MONDAY + 2 * MINUTE)
    end_as(
        database,
        value(database, "SELECT r.id FROM runs r JOIN breakers b ON b.probe = r.public_id"),
        "completed",
        "completed",
    )
    (change,) = breakers.count().changes
    schedules.plan(known, MONDAY + 3 * MINUTE)

    assert not change.opened
    assert slots(database) == [("ran", None)] * 3


def test_of_what_is_made_up_for_one_run_is_the_probe(database, breakers):
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, an_entry(pattern="0 * * * *", missed=Missed.ALL))
    open_one(database)
    probe_at(database, MONDAY)

    planned(schedules, known, MONDAY + 5 * HOUR + 30 * MINUTE)

    assert slots(database) == [("deferred", "catch-up")] + [("skipped", "breaker-open")] * 4


def test_an_instant_that_leads_to_no_run_is_no_probe(database, breakers):
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, an_entry(pattern="0 * * * *", github=True))
    open_one(database)
    probe_at(database, MONDAY)

    planned(schedules, known, MONDAY + HOUR)

    assert slots(database) == [("skipped", "not-enforced-yet")]
    assert breakers_of(database, ["nightly"])["nightly"].probe is None


def test_a_plan_that_dies_leaves_no_probe_behind(database, breakers, monkeypatch):
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, an_entry(pattern="* * * * *"))
    open_one(database)
    probe_at(database, MONDAY)

    def die(_):
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("pidispatch.store.triggers.probes.Probes.write", die)
        with pytest.raises(Died):
            schedules.plan(known, MONDAY + MINUTE)
    assert (slots(database), breakers_of(database, ["nightly"])["nightly"].probe) == ([], None)

    assert schedules.plan(known, MONDAY + MINUTE).runs == 1


def test_an_operator_closes_it_and_what_had_ended_before_does_not_open_it_again(database, breakers):
    open_one(database)
    fail(database, times=5)

    found = close(database, "nightly", actor="me@h1", reason="mended")

    assert found.is_open
    assert (uncounted(database), breakers.count().endings) == (0, 0)
    assert breakers_of(database, ["nightly"]) == {}
    assert row(database, "SELECT actor, subject, detail FROM audit_log WHERE action = 'breaker-close'") == {
        "actor": "me@h1",
        "subject": "nightly",
        "detail": {"changed": True, "reason": "mended"},
    }


def test_a_trigger_that_is_not_held_back_may_be_closed_and_one_that_never_ran_may_not(database, breakers):
    end_as(database, a_run_of(database), "completed", "completed")
    breakers.count()

    assert close(database, "nightly", actor="me@h1") is None
    with pytest.raises(NoSuchTrigger, match="nihgtly"):
        close(database, "nihgtly", actor="me@h1")
    assert value(database, "SELECT count(*) FROM audit_log") == 1


def test_a_run_knows_how_its_trigger_stands(database, breakers):
    mine, other = a_run_of(database), a_run(database)
    open_one(database)

    assert breaker_of_run(database, mine).trigger_id == "nightly"
    assert breaker_of_run(database, other) is None


def test_a_waiting_run_is_held_back_but_for_what_was_begun_or_asked_for_by_hand(database, breakers):
    waiting = a_run_of(database)
    probe = a_run_of(database, name="probe")
    manual = a_run_of(database, name="manual:nightly:1")
    chained = a_run_of(database, type_="chain")
    begun = a_run_of(database)
    again = a_run_of(database)
    with database.transaction() as connection:
        connection.execute(text("UPDATE runs SET attempt = 1 WHERE id = :id"), {"id": begun})
        connection.execute(
            text("UPDATE runs SET requeue_of = :old WHERE id = :id"), {"id": again, "old": begun}
        )
    fail(database, times=3)
    assert breakers.held_back(waiting) == "breaker-counting"
    breakers.count()
    with database.transaction() as connection:
        connection.execute(text("UPDATE breakers SET probe = 'probe'"))

    assert breakers.held_back(waiting) == "breaker-open"
    assert [breakers.held_back(run) for run in (probe, manual, chained, begun, again)] == [None] * 5


def test_with_zero_failures_allowed_nothing_is_held_back(database):
    a_host(database)
    fail(database, times=9)

    counted = some_breakers(database, Rules(0, QUARTER)).count()

    assert (counted.endings, counted.changes) == (9, [])
    assert open_breakers(database) == []
    assert RULES.failures < breakers_of(database, ["nightly"])["nightly"].failures == 9


def test_two_days_of_failing_instants_start_eleven_probes(database, breakers):
    """A schedule of every ten minutes that always fails: a day after it opened, six hours lie between its runs."""
    schedules = the_schedules(database)
    known = synced(schedules, MONDAY, an_entry(pattern="*/10 * * * *"))
    open_one(database)
    moment, backoff = MONDAY, 900
    probe_at(database, moment + timedelta(seconds=backoff))
    while moment < MONDAY + 2 * DAY:
        moment += 10 * MINUTE
        schedules.plan(known, moment)
        probe = value(database, "SELECT max(r.id) FROM runs r JOIN breakers b ON b.probe = r.public_id")
        if probe is not None:
            end_as(database, probe)
            breakers.count()
            backoff = value(database, "SELECT backoff_seconds FROM breakers")
            probe_at(database, moment + timedelta(seconds=backoff))

    found = slots(database)
    assert (len(found), found.count(("ran", None)), backoff) == (288, 11, 21_600)
    assert set(found) == {("ran", None), ("skipped", "breaker-open")}
