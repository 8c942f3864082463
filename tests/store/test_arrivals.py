"""What becomes of the second request for the same: told at once, written down, and never a second run by accident."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.runs.outcome import Again
from pidispatch.domain.runs.run import BoxEnd
from pidispatch.domain.triggers.arrival import Became
from pidispatch.domain.triggers.subject import RunSubject
from pidispatch.domain.triggers.trigger import WhileRunning
from pidispatch.store.runs.calls import PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from pidispatch.store.triggers.arrivals import Arrivals
from tests.store.arriving import ISSUE, a_delivery, a_folder_arrival, an_arrival
from tests.store.builders import a_host, assert_ledger_is_exact, row, try_next, value
from tests.support.breaking import open_one

QUEUE, SKIP, SUPERSEDE, PARALLEL = WhileRunning
CONTAINER = "c0ffee" * 10


@pytest.fixture
def arrivals(database):
    a_host(database, capacity=10)
    return Arrivals(database)


def admit(database):
    """The next run gets a slot; its mutex stays what it is, as it will for a run of a forge."""
    found = try_next(database)
    assert found is not None
    assert isinstance(found[1], Admitted)
    return found[1].claim


def goes(database):
    """The next run gets its slot, its box and its go."""
    runs = Runs(database)
    claim = runs.preparing(admit(database)).claim
    runs.boxed(claim, container_id=CONTAINER, name="box")
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, claim.attempt, CONTAINER[:12])
    return runs.facts(claim.run_id).claim


def age(database, run):
    """The run was asked for long before the window."""
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET created_at = now() - interval '1 hour' WHERE public_id = :run"),
            {"run": run},
        )


def end(database):
    with database.transaction() as connection:
        connection.execute(text("UPDATE scopes SET occupied = 0"))
        connection.execute(
            text(
                "UPDATE runs SET state='ended', outcome='completed', reason='completed', ended_at=now()"
                " WHERE ended_at IS NULL"
            )
        )


def a_state(database, run):
    return row(
        database,
        "SELECT r.state, r.cause, b.public_id AS behind FROM runs r LEFT JOIN runs b ON b.id = r.blocked_by"
        " WHERE r.public_id = :run",
        run=run,
    )


def decisions(database):
    with database.transaction() as connection:
        found = connection.execute(text("SELECT source, decision, reason FROM deliveries ORDER BY id"))
        return [tuple(each) for each in found]


def runs_of(database):
    return value(database, "SELECT count(*) FROM runs")


def test_the_first_arrival_starts_a_run_with_its_content_and_its_subject(database, arrivals):
    arrived = arrivals.arrive(an_arrival(body=b"\x00\xff raw"))

    assert arrived.kind is Became.STARTED
    assert str(arrived) == f"started {arrived.run}"
    assert row(
        database,
        "SELECT state, kind, subject, mutex, trigger_id, trigger_index, title, body FROM runs r"
        " JOIN run_payloads p ON p.run_id = r.id",
    ) == {
        "state": "queued",
        "kind": "github",
        "subject": ISSUE.key,
        "mutex": ISSUE.mutex,
        "trigger_id": "t1",
        "trigger_index": 3,
        "title": b"A title",
        "body": b"\x00\xff raw",
    }
    assert row(database, "SELECT scope, item, lane FROM subjects") == {
        "scope": "github:acme/web",
        "item": "#7",
        "lane": "fix",
    }


def test_what_arrives_while_a_run_waits_joins_it_and_the_newest_content_wins(database, arrivals):
    first = arrivals.arrive(an_arrival(body=b"old"))

    second = arrivals.arrive(an_arrival(body=b"new"))

    assert (second.kind, second.run) == (Became.COALESCED, first.run)
    assert str(second) == f"coalesced into {first.run}"
    assert runs_of(database) == 1
    assert value(database, "SELECT body FROM run_payloads") == b"new"
    assert decisions(database) == [("github", "started", None), ("github", "coalesced", None)]
    assert value(database, "SELECT count(*) FROM deliveries WHERE run_id = :id", id=first.run_id) == 2


def test_cron_webhook_poll_and_a_person_who_ask_for_the_same_are_told_of_one_run(database, arrivals):
    answers = [arrivals.arrive(an_arrival(source)) for source in ("cron", "github", "poll", "cli")]

    assert [answer.kind for answer in answers] == [Became.STARTED, *[Became.COALESCED] * 3]
    assert len({answer.run for answer in answers}) == 1
    assert runs_of(database) == 1


def test_a_second_event_while_one_runs_waits_behind_it_and_starts_after_it(database, arrivals):
    first = arrivals.arrive(an_arrival())
    claim = goes(database)

    second = arrivals.arrive(an_arrival(body=b"also this"))
    third = arrivals.arrive(an_arrival(body=b"and this"))

    assert (second.kind, second.behind) == (Became.QUEUED, first.run)
    assert str(second) == f"queued {second.run} behind {first.run}"
    assert (third.kind, third.run) == (Became.COALESCED, second.run)
    assert a_state(database, second.run) == {"state": "deferred", "cause": "scope", "behind": first.run}
    assert (
        value(database, "SELECT body FROM run_payloads WHERE run_id = :id", id=second.run_id) == b"and this"
    )
    assert try_next(database) is None  # the subject is taken

    runs = Runs(database)
    assert Endings(database).again(runs.finishing(claim), Again("provider-failed", 600), BoxEnd())
    assert admit(database).run_id == second.run_id
    assert_ledger_is_exact(database)


def test_skip_leaves_the_run_as_it_is(database, arrivals):
    first = arrivals.arrive(an_arrival(body=b"old"))
    waiting = arrivals.arrive(an_arrival(policy=SKIP, body=b"new"))
    goes(database)
    running = arrivals.arrive(an_arrival(policy=SKIP, body=b"new"))

    assert {waiting.kind, running.kind} == {Became.SKIPPED}
    assert {waiting.run, running.run} == {first.run}
    assert str(running) == f"skipped: {first.run} is there"
    assert value(database, "SELECT body FROM run_payloads") == b"old"

    end(database)
    assert arrivals.arrive(an_arrival(policy=SKIP)).kind is Became.STARTED


def test_supersede_asks_the_running_one_to_stop_and_waits_for_its_slot(database, arrivals):
    first = arrivals.arrive(an_arrival())
    goes(database)

    second = arrivals.arrive(an_arrival(policy=SUPERSEDE))
    third = arrivals.arrive(an_arrival(policy=SUPERSEDE, body=b"newest"))

    assert (second.kind, second.behind) == (Became.SUPERSEDING, first.run)
    assert str(second) == f"queued {second.run}, which supersedes {first.run}"
    assert row(database, "SELECT state, stop_reason FROM runs WHERE id = :id", id=first.run_id) == {
        "state": "running",
        "stop_reason": "superseded",
    }
    assert (third.kind, third.run) == (Became.COALESCED, second.run)
    assert value(database, "SELECT body FROM run_payloads WHERE run_id = :id", id=second.run_id) == b"newest"
    assert try_next(database) is None


def test_supersede_takes_over_the_run_that_waits_already(database, arrivals):
    first = arrivals.arrive(an_arrival())
    goes(database)
    waiting = arrivals.arrive(an_arrival())

    newer = arrivals.arrive(an_arrival(policy=SUPERSEDE, body=b"newest"))

    assert (newer.kind, newer.run, newer.behind) == (Became.SUPERSEDING, waiting.run, first.run)
    assert runs_of(database) == 2


def test_supersede_ends_a_run_that_waits_for_its_second_attempt(database, arrivals):
    first = arrivals.arrive(an_arrival())
    runs = Runs(database)
    claim = runs.finishing(goes(database))
    assert Endings(database).again(claim, Again("provider-failed", 600), BoxEnd())

    second = arrivals.arrive(an_arrival(policy=SUPERSEDE))

    assert second.kind is Became.SUPERSEDING
    assert row(database, "SELECT state, outcome, reason FROM runs WHERE id = :id", id=first.run_id) == {
        "state": "ended",
        "outcome": "policy",
        "reason": "superseded",
    }
    assert admit(database).run_id == second.run_id
    assert_ledger_is_exact(database)


def test_a_run_between_two_attempts_keeps_its_content(database, arrivals):
    first = arrivals.arrive(an_arrival(body=b"old"))
    runs = Runs(database)
    assert Endings(database).again(runs.finishing(goes(database)), Again("provider-failed", 600), BoxEnd())

    second = arrivals.arrive(an_arrival(body=b"new"))

    assert (second.kind, second.behind) == (Became.QUEUED, first.run)
    assert value(database, "SELECT body FROM run_payloads WHERE run_id = :id", id=first.run_id) == b"old"


def test_parallel_starts_each_at_once(database, arrivals):
    answers = [arrivals.arrive(an_arrival(policy=PARALLEL)) for _ in range(3)]

    assert {answer.kind for answer in answers} == {Became.STARTED}
    assert runs_of(database) == 3
    assert value(database, "SELECT count(*) FROM runs WHERE mutex IS NULL AND state = 'queued'") == 3


@pytest.mark.parametrize("policy", WhileRunning)
def test_another_source_that_tells_of_it_within_the_window_starts_nothing(database, arrivals, policy):
    first = arrivals.arrive(an_arrival("github", policy=policy))
    goes(database)

    told = arrivals.arrive(an_arrival("poll", policy=policy))

    assert (told.kind, told.run) == (Became.COALESCED, first.run)
    assert value(database, "SELECT stop_reason FROM runs") is None


def test_another_source_after_the_window_asks_anew(database, arrivals):
    first = arrivals.arrive(an_arrival("github"))
    goes(database)
    age(database, first.run)

    assert arrivals.arrive(an_arrival("poll")).kind is Became.QUEUED


def test_the_same_source_again_is_another_event_even_within_the_window(database, arrivals):
    arrivals.arrive(an_arrival("github"))
    goes(database)

    assert arrivals.arrive(an_arrival("github")).kind is Became.QUEUED


def test_a_person_who_asks_again_after_the_end_gets_a_run_and_a_poller_does_not(database, arrivals):
    first = arrivals.arrive(an_arrival("github"))
    end(database)

    assert arrivals.arrive(an_arrival("poll")).run == first.run
    assert arrivals.arrive(an_arrival("cli")).kind is Became.STARTED


def test_a_delivery_that_is_sent_again_is_told_the_first_answer(database, arrivals):
    first = arrivals.arrive(an_arrival(delivery_id="guid-1"))
    end(database)

    again = arrivals.arrive(an_arrival(delivery_id="guid-1", body=b"other"))
    other_subject = replace(ISSUE, lane="other")
    elsewhere = arrivals.arrive(an_arrival(delivery_id="guid-1", subject=other_subject))

    assert {again.kind, elsewhere.kind} == {Became.DUPLICATE}
    assert {again.run, elsewhere.run} == {first.run}
    assert str(again) == f"a duplicate: {first.run}"
    assert row(database, "SELECT count(*) AS rows, max(repeats) AS repeats FROM deliveries") == {
        "rows": 1,
        "repeats": 2,
    }


def test_the_same_body_under_another_id_is_a_duplicate_for_a_day_and_only_from_its_source(database, arrivals):
    first = arrivals.arrive(an_arrival(body_hash=b"\x01" * 32))
    end(database)

    replayed = arrivals.arrive(an_arrival(body_hash=b"\x01" * 32))
    assert (replayed.kind, replayed.run) == (Became.DUPLICATE, first.run)
    assert decisions(database)[-1] == ("github", "duplicate", "same-body")

    age(database, first.run)
    assert arrivals.arrive(an_arrival("gitlab", body_hash=b"\x01" * 32)).kind is Became.STARTED
    end(database)
    with database.transaction() as connection:
        connection.execute(text("UPDATE deliveries SET received_at = now() - interval '25 hours'"))
        connection.execute(text("UPDATE runs SET created_at = now() - interval '25 hours'"))
    assert arrivals.arrive(an_arrival(body_hash=b"\x01" * 32)).kind is Became.STARTED


def test_one_comment_told_by_webhook_and_much_later_by_poll_starts_one_run(database, arrivals):
    first = arrivals.arrive(an_arrival("github", occurrence="comment:12"))
    age(database, first.run)
    goes(database)

    told = arrivals.arrive(an_arrival("poll", occurrence="comment:12"))
    another = arrivals.arrive(an_arrival("poll", occurrence="comment:13"))

    assert (told.kind, told.run) == (Became.COALESCED, first.run)
    assert another.kind is Became.QUEUED
    assert decisions(database)[1] == ("poll", "coalesced", "same-occurrence")


def test_a_dropped_delivery_is_written_down_and_may_start_a_run_when_it_is_sent_again(database, arrivals):
    dropped = arrivals.drop(a_delivery(delivery_id="guid-9"), "no-allowlisted-label")
    again = arrivals.drop(a_delivery(delivery_id="guid-9"), "no-trigger-phrase")
    assert dropped == again
    assert decisions(database) == [("github", "dropped", "no-trigger-phrase")]

    arrived = arrivals.arrive(an_arrival(delivery_id="guid-9"))

    assert arrived.kind is Became.STARTED
    assert decisions(database) == [("github", "started", None)]
    late = arrivals.drop(a_delivery(delivery_id="guid-9"), "no-flow")
    assert (late.kind, late.run) == (Became.DUPLICATE, arrived.run)


def test_another_number_lane_or_repository_is_another_subject(database, arrivals):
    others = [
        ISSUE,
        replace(ISSUE, item="#8"),
        replace(ISSUE, lane="closed:fix"),
        replace(ISSUE, scope="github:acme/api"),
        RunSubject("github:acme/web", "#7fix", ""),
    ]

    assert {arrivals.arrive(an_arrival(subject=each)).kind for each in others} == {Became.STARTED}
    assert runs_of(database) == len(others)


def test_two_tasks_for_one_folder_are_two_runs_and_the_folder_takes_them_in_turn(database, arrivals):
    first = arrivals.arrive(a_folder_arrival("cli", task=b"one"))
    second = arrivals.arrive(a_folder_arrival("cli", task=b"two"))
    same = arrivals.arrive(a_folder_arrival("cron", task=b"one"))

    assert (first.kind, second.kind) == (Became.STARTED, Became.STARTED)
    assert (same.kind, same.run) == (Became.COALESCED, first.run)
    admit(database)
    assert try_next(database) is None


def test_an_arrival_whose_transaction_fails_leaves_nothing(database, arrivals, monkeypatch):
    def broken(*_args):
        raise RuntimeError("killed")

    monkeypatch.setattr("pidispatch.store.triggers.arrivals._answer", broken)
    with pytest.raises(RuntimeError, match="killed"):
        arrivals.arrive(an_arrival())

    for table in ("deliveries", "runs", "subjects", "run_payloads"):
        assert value(database, f"SELECT count(*) FROM {table}") == 0


def test_a_run_of_the_same_name_answers_for_a_second_request(database, arrivals):
    first = arrivals.arrive(an_arrival("cli", delivery_id="a"))
    end(database)
    second = an_arrival("cli", delivery_id="b")

    arrived = arrivals.arrive(replace(second, run=replace(second.run, public_id=first.run)))

    assert (arrived.kind, arrived.run_id) == (Became.DUPLICATE, first.run_id)


def test_an_event_of_a_trigger_that_is_held_back_starts_nothing_and_says_so(database, arrivals):
    open_one(database, "t1")

    held = arrivals.arrive(an_arrival())

    assert (held.kind, held.run, str(held)) == (Became.SKIPPED, None, "skipped: breaker-open")
    assert row(database, "SELECT decision, reason, run_id FROM deliveries") == {
        "decision": "skipped",
        "reason": "breaker-open",
        "run_id": None,
    }


def test_one_event_in_a_back_off_is_the_probe(database, arrivals):
    open_one(database, "t1")
    with database.transaction() as connection:
        connection.execute(text("UPDATE breakers SET probe_at = now() - interval '1 second'"))

    other = RunSubject("github:acme/web", "#8", "fix")
    kinds = [arrivals.arrive(an_arrival(subject=subject)).kind for subject in (ISSUE, other)]

    assert kinds == [Became.STARTED, Became.SKIPPED]
    assert value(database, "SELECT count(*) FROM breakers b JOIN runs r ON r.public_id = b.probe") == 1


def test_what_is_held_back_stops_nothing_that_it_would_supersede(database, arrivals):
    arrivals.arrive(an_arrival())
    age(database, goes(database).public_id)
    open_one(database, "t1")

    assert arrivals.arrive(an_arrival(policy=SUPERSEDE)).kind is Became.SKIPPED
    assert value(database, "SELECT count(*) FROM runs WHERE stop_reason IS NOT NULL") == 0


def test_a_person_is_not_held_back(database, arrivals):
    open_one(database, "t1")

    assert arrivals.arrive(an_arrival("cli")).kind is Became.STARTED


def replicas(database):
    with database.transaction() as connection:
        found = connection.execute(
            text(
                "SELECT r.replica, r.replicas, r.subject, r.mutex, r.stop_reason, p.body FROM runs r"
                " JOIN run_payloads p ON p.run_id = r.id WHERE r.replica IS NOT NULL ORDER BY r.replica"
            )
        )
        return found.all()


def test_an_event_with_replicas_starts_all_of_them_and_again_none(database, arrivals):
    arrival = an_arrival(replicas=3)

    first = arrivals.arrive(arrival)
    again = arrivals.arrive(arrival)

    assert (first.kind, first.run) == (Became.STARTED, f"{arrival.run.public_id}-r1")
    assert (again.kind, again.run) == (Became.DUPLICATE, first.run)
    key = arrival.subject.key
    assert [(each.replica, each.replicas, each.subject, each.mutex) for each in replicas(database)] == [
        (number, 3, f"{key}:r{number}", f"subject:{key}:r{number}") for number in (1, 2, 3)
    ]


def test_a_second_event_renews_every_replica_that_waits(database, arrivals):
    first = arrivals.arrive(an_arrival(replicas=2))

    second = arrivals.arrive(an_arrival(replicas=2, body=b"newer"))

    assert (second.kind, second.run) == (Became.COALESCED, first.run)
    assert [bytes(each.body) for each in replicas(database)] == [b"newer", b"newer"]


def test_to_supersede_stops_every_replica(database, arrivals):
    old = arrivals.arrive(an_arrival(replicas=2))
    with database.transaction() as connection:  # each has a clone of its own in use
        connection.execute(
            text(
                "UPDATE runs SET state = 'running', host = 'h1', attempt = 1, started_at = now(),"
                " created_at = now() - interval '1 hour'"
            )
        )

    new = arrivals.arrive(an_arrival(policy=SUPERSEDE, replicas=2))

    assert (new.kind, new.behind) == (Became.SUPERSEDING, old.run)
    stopped = [each.stop_reason for each in replicas(database)]
    assert sorted(map(str, stopped)) == ["None", "None", "superseded", "superseded"]


def test_of_replicas_one_is_the_probe_of_a_breaker(database, arrivals):
    open_one(database, "t1")
    with database.transaction() as connection:
        connection.execute(text("UPDATE breakers SET probe_at = now() - interval '1 second'"))

    assert arrivals.arrive(an_arrival(replicas=3)).kind is Became.STARTED
    assert [each.replica for each in replicas(database)] == [1]
