"""Many who ask for one thing at one moment, from several processes: one run, and everybody is told so."""

import multiprocessing
import threading
import time
from collections import Counter
from dataclasses import replace

from sqlalchemy import text

from pidispatch.domain.arrival import Became
from pidispatch.domain.ask import Ask
from pidispatch.domain.outcome import End
from pidispatch.domain.run import BoxEnd, Outcome, Waiting
from pidispatch.domain.subject import RunSubject
from pidispatch.domain.triggers import WhileRunning
from pidispatch.ingest import Ingest, LocalRequest
from pidispatch.ports import Admitted, FolderState, Refused
from pidispatch.store.admission import PostgresAdmissions
from pidispatch.store.arrivals import PostgresArrivals
from pidispatch.store.database import Database
from pidispatch.store.endings import PostgresEndings
from pidispatch.store.runs import PostgresRuns
from tests.flows.site import FakeBell
from tests.store.arriving import an_arrival
from tests.store.builders import HOST, WORKER, a_host, assert_ledger_is_exact, ready_for, value
from tests.support.scale import scaled
from tests.support.timed import MINUTE, Folders, an_entry, synced, the_schedules
from tests.support.wallclock import utc

SPAWN = multiprocessing.get_context("spawn")
SOURCES = ("cron", "github", "poll", "cli")
EACH = scaled(60, nightly=250)
EVENTS = len(SOURCES) * EACH
THREADS = 4
RACERS = 8
RACES = scaled(50, nightly=200)
CLI_RACES = scaled(30, nightly=100)
JITTER = 0.005  # seconds: planning one instant takes some of these, so that every pair of steps meets


class CleanFolders:
    """`ports.GitBox`: every folder is a clean repository."""

    def state(self, folder, *, image):
        return FolderState(is_root=True, head="a" * 40, dirty=False, problem=None)


def deadlocks(database):
    return value(database, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")


def tell(url, source, policy, barrier, answers):
    """One source: its events come from four threads, and all begin when the barrier falls."""
    database = Database(url, pool_size=THREADS)
    arrivals = PostgresArrivals(database)
    told = []

    def some(first):
        events = [
            an_arrival(
                source, delivery_id=f"{source}-{number}", body=f"{source} {number}".encode(), policy=policy
            )
            for number in range(first, EACH, THREADS)
        ]
        barrier.wait(60)
        told.extend(arrivals.arrive(event) for event in events)

    threads = [threading.Thread(target=some, args=(first,)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    answers.put([(str(each.kind), each.run, str(each)) for each in told])
    database.close()


def processes(target, arguments):
    started = [SPAWN.Process(target=target, args=each, daemon=True) for each in arguments]
    for process in started:
        process.start()
    return started


def test_four_sources_with_many_events_each_for_one_subject_start_one_run(database, database_url):
    a_host(database)
    barrier, answers = SPAWN.Barrier(len(SOURCES) * THREADS), SPAWN.Queue()
    started = processes(
        tell, [(database_url, source, WhileRunning.QUEUE, barrier, answers) for source in SOURCES]
    )
    told = [answers.get(timeout=150) for _ in SOURCES]
    for process in started:
        process.join(20)

    every = [answer for source in told for answer in source]
    assert len(every) == EVENTS
    assert Counter(kind for kind, _, _ in every) == {Became.STARTED: 1, Became.COALESCED: EVENTS - 1}
    (run,) = {run for _, run, _ in every}
    assert Counter(said for _, _, said in every)[f"coalesced into {run}"] == EVENTS - 1
    apart = "SELECT max(first) < min(last) FROM (SELECT min(id) AS first, max(id) AS last FROM deliveries GROUP BY source) AS s"
    assert value(database, apart)  # all were under way at once
    assert value(database, "SELECT count(*) FROM runs") == 1
    assert value(database, "SELECT count(*) FROM deliveries WHERE decision = 'coalesced'") == EVENTS - 1
    assert value(database, "SELECT count(DISTINCT run_id) FROM deliveries") == 1
    newest = value(
        database, "SELECT source || ' ' || substr(delivery_id, strpos(delivery_id, '-') + 1) FROM deliveries d"
        " ORDER BY id DESC LIMIT 1",
    )  # fmt: skip
    assert value(database, "SELECT body FROM run_payloads") == str(newest).encode()
    assert deadlocks(database) == 0


def test_events_that_meet_admissions_and_cancels_never_make_two_wait_or_run(database, database_url):
    """Each source asks for the run that goes on to be stopped, while it is being admitted."""
    a_host(database, capacity=50)
    barrier, answers = SPAWN.Barrier(2 * THREADS), SPAWN.Queue()
    started = processes(
        tell, [(database_url, source, WhileRunning.SUPERSEDE, barrier, answers) for source in SOURCES[:2]]
    )
    admissions, most = PostgresAdmissions(database, host=HOST, worker=WORKER), 0
    while any(process.is_alive() for process in started) and answers.qsize() < 2:
        seen = admissions.next_due([])
        if seen is not None:
            admissions.admit(seen, ready_for(database, seen.run_id))
        most = max(most, int(str(value(database, WAITING))))
        if value(
            database, "SELECT count(*) FROM runs WHERE stop_requested_at IS NOT NULL AND ended_at IS NULL"
        ):
            _end_stopped(database)
    told = [answers.get(timeout=150) for _ in range(2)]
    for process in started:
        process.join(20)

    every = [kind for source in told for kind, _, _ in source]
    assert len(every) == 2 * EACH
    assert most <= 1
    assert set(every) <= {Became.STARTED, Became.COALESCED, Became.QUEUED, Became.SUPERSEDING}
    assert deadlocks(database) == 0
    assert_ledger_is_exact(database)


def ask(url, rounds, barrier, answers):
    """The command line's side: for each round it asks when the schedule's instant has come."""
    database = Database(url, pool_size=1)
    now = database.now()
    ingest = Ingest(
        host=HOST,
        arrivals=PostgresArrivals(database),
        bell=FakeBell(),
        gitbox=CleanFolders(),
        open_folder=Folders(),
        default_image="pi-job:test",
        clock=lambda: now,
    )
    for number in range(rounds):
        request = LocalRequest(f"/repos/s{number}", b"Tidy up", Ask(flow="tidy"))
        barrier.wait(60)
        time.sleep(number % 8 * JITTER)
        answers.put((number, ingest.submit(request).public_id))
    database.close()


def test_the_command_line_and_a_scheduler_that_race_start_one_run_each_time(database, database_url):
    a_host(database)
    schedules, base = the_schedules(database), utc(2026, 5, 4)
    entries = [an_entry(f"s{n}", f"{n % 60} {n // 60} * * *", index=n) for n in range(CLI_RACES)]
    known = synced(schedules, base - MINUTE, *entries)
    barrier, answers = SPAWN.Barrier(2), SPAWN.Queue()
    (asker,) = processes(ask, [(database_url, CLI_RACES, barrier, answers)])
    for number in range(CLI_RACES):
        barrier.wait(60)
        assert schedules.plan(known, base + number * MINUTE).due == 1
    named = [answers.get(timeout=60) for _ in range(CLI_RACES)]
    asker.join(20)

    assert value(database, "SELECT count(*) FROM runs") == CLI_RACES
    with database.transaction() as connection:
        told = connection.execute(text(BOTH_TOLD)).all()
    assert [each.folder for each in told] == [f"s{n}" for n in range(CLI_RACES)]
    assert {each.decisions for each in told} == {"coalesced started"}
    assert {each.sources for each in told} == {"cli cron"}
    assert dict(named) == {n: each.public_id for n, each in enumerate(told)}
    assert all(each.slot == each.public_id for each in told)
    first = Counter(each.public_id.split("-")[0].split(":")[0] for each in told)
    print(f"who came first: {dict(first)}")
    assert deadlocks(database) == 0


BOTH_TOLD = """
SELECT r.public_id, substr(r.target, 7) AS folder, string_agg(d.decision, ' ' ORDER BY d.decision) AS decisions,
       string_agg(d.source, ' ' ORDER BY d.source) AS sources,
       (SELECT w.public_id FROM schedule_slots s JOIN runs w ON w.id = s.run_id
        WHERE s.schedule = substr(r.target, 7)) AS slot
FROM runs r JOIN deliveries d ON d.run_id = r.id GROUP BY r.id ORDER BY substr(r.target, 8)::int
"""
WAITING = "SELECT count(*) FROM runs WHERE state IN ('queued', 'deferred', 'held')"


def _end_stopped(database):
    """What the reconciler and the finisher do with a run that was asked to stop."""
    runs = PostgresRuns(database)
    stopped = int(
        str(
            value(
                database, "SELECT min(id) FROM runs WHERE stop_requested_at IS NOT NULL AND ended_at IS NULL"
            )
        )
    )
    claim = runs.finishing(runs.facts(stopped).claim)
    assert PostgresEndings(database).end(claim, End(Outcome.POLICY, "superseded"), BoxEnd())


def race(url, host, mine, barrier, answers):
    """One of eight: for each one-shot it admits its own run when the others do."""
    database = Database(url, pool_size=1)
    admissions = PostgresAdmissions(database, host=host, worker=f"{host}:1")
    now = database.now()
    for run_id, scope, one_shot in mine:
        waiting = Waiting(run_id, "", 0, b"/repos/x", b"/repos/x", scope, 0, now, one_shot=one_shot)
        ready = ready_for(database, run_id, (), mutex=f"subject:{run_id}", capacity=100_000)
        barrier.wait(60)
        answers.put((one_shot, run_id, repr(admissions.admit(waiting, ready))))
    database.close()


def test_a_one_shot_that_eight_hosts_race_for_is_spent_once_each(database, database_url):
    """No lock but the one-shot's own stands between them: hosts, scopes and subjects differ, and there is no cap."""
    for racer in range(RACERS):
        a_host(database, capacity=100_000, host=f"h{racer + 1}")
    lanes = [[] for _ in range(RACERS)]
    arrivals = PostgresArrivals(database)
    for number in range(RACES):
        for racer in range(RACERS):
            subject = RunSubject("github:acme/web", f"#{number * RACERS + racer + 1}", "fix")
            arrival = an_arrival(subject=subject, one_shot=f"once-{number}")
            scope = f"acme/web{racer}"
            arrived = arrivals.arrive(replace(arrival, run=replace(arrival.run, scope=scope)))
            lanes[racer].append((arrived.run_id, scope, f"once-{number}"))
    barrier, answers = SPAWN.Barrier(RACERS), SPAWN.Queue()
    started = processes(
        race, [(database_url, f"h{n}", mine, barrier, answers) for n, mine in enumerate(lanes, 1)]
    )
    told = [answers.get(timeout=150) for _ in range(RACES * RACERS)]
    for process in started:
        process.join(20)

    won = Counter(key for key, _, answer in told if answer.startswith(Admitted.__name__))
    lost = Counter(answer for _, _, answer in told if not answer.startswith(Admitted.__name__))
    assert won == {f"once-{number}": 1 for number in range(RACES)}
    assert lost == {repr(Refused("once-already-spent", "by-another-run")): RACES * (RACERS - 1)}
    assert value(database, "SELECT count(*) FROM one_shots") == RACES
    spenders = "SELECT count(*) FROM one_shots o JOIN runs r ON r.id = o.run_id AND r.state = 'admitted'"
    assert value(database, spenders) == RACES
    assert deadlocks(database) == 0
    assert_ledger_is_exact(database)
