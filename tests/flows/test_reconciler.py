"""The reconciler on real rows: what a crash left is finished, stopped, taken back or removed."""

from sqlalchemy import text
from structlog.testing import capture_logs

from pidispatch.domain.box.sandbox import (
    LABEL_ATTEMPT,
    LABEL_INSTALLATION,
    LABEL_ROLE,
    LABEL_RUN,
    ROLE_JOB,
    BoxSpec,
    box_name,
)
from pidispatch.domain.runs.reconcile import Departure
from pidispatch.errors import QueueUnavailable
from tests.flows.site import INSTALLATION
from tests.store.builders import HOST, IDENTITY, WORKER, a_run, assert_ledger_is_exact, row, value

STATE = "SELECT state FROM runs WHERE id = :id"


def silence_worker(site):
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE workers SET heartbeat_at = now() - interval '20 s'"))


def a_box(run_id, attempt, installation=INSTALLATION):
    return BoxSpec(
        name=box_name(installation, run_id, attempt),
        image="pi-job:latest",
        uid=1,
        gid=1,
        labels={
            LABEL_INSTALLATION: installation,
            LABEL_ROLE: ROLE_JOB,
            LABEL_RUN: str(run_id),
            LABEL_ATTEMPT: str(attempt),
        },
        mounts=(),
    )


def test_an_ended_box_is_rung_for_once_and_finished(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0)

    site.look()
    site.look()

    assert site.bell.finishes == [run_id]
    site.hear_finishes()
    assert value(site.database, STATE, id=run_id) == "ended"


def test_without_redis_an_ended_box_is_finished_all_the_same(site, monkeypatch):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0)

    def no_redis(*_):
        raise QueueUnavailable("down")

    monkeypatch.setattr(site.bell, "ring_finish", no_redis)
    site.look()

    assert value(site.database, STATE, id=run_id) == "ended"


def test_a_run_past_its_deadline_is_stopped_read_back_and_ended(site):
    run_id = a_run(site.database)
    claim, _ = site.started()
    site.go(claim)
    site.offset = "61 seconds"

    site.look()
    assert value(site.database, STATE, id=run_id) == "stopping"
    site.look()
    site.hear_finishes()

    ended = row(site.database, "SELECT outcome, reason, why FROM runs WHERE id = :id", id=run_id)
    assert ended == {"outcome": "policy", "reason": "worker-abort", "why": "deadline"}
    assert value(site.database, "SELECT used FROM spend_windows") == 1
    assert site.nothing_is_left()


def test_a_cancelled_run_ends_as_the_operators_wish(site):
    run_id = a_run(site.database)
    claim, _ = site.started()
    site.go(claim)
    site.runs.request_stop(run_id, reason="operator-cancel")

    site.look()
    site.look()
    site.hear_finishes()

    assert value(site.database, "SELECT reason FROM runs WHERE id = :id", id=run_id) == "operator-cancel"


def test_a_run_whose_box_is_gone_is_lost_and_keeps_its_money(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.remove(container)

    site.look()
    site.hear_finishes()

    ended = row(site.database, "SELECT outcome, reason, exit_code FROM runs WHERE id = :id", id=run_id)
    assert ended == {"outcome": "failed", "reason": "lost", "exit_code": None}
    assert value(site.database, "SELECT used FROM spend_windows") == 1


def test_a_preparer_that_fell_silent_loses_its_run_and_nothing_is_charged(site):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    site.runs.preparing(claim)
    site.boxes.create(a_box(run_id, 1))  # it died between the box and the row
    silence_worker(site)

    site.look()

    assert row(site.database, "SELECT state, cause FROM runs WHERE id = :id", id=run_id) == {
        "state": "deferred",
        "cause": "worker-silent",
    }
    assert value(site.database, "SELECT used FROM spend_windows") == 0
    site.look()
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


def test_a_box_that_no_row_names_is_removed_before_its_run_may_start_again(site):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    job = site.runs.preparing(claim)
    left = site.boxes.create(a_box(run_id, claim.attempt))
    site.boxes.start(left)
    states = []
    remove = site.boxes.remove
    site.boxes.remove = lambda box: (states.append(value(site.database, STATE, id=run_id)), remove(box))
    silence_worker(site)

    site.look()

    assert states == ["preparing"]
    assert site.boxes.inspect(left) is None
    assert value(site.database, STATE, id=run_id) == "deferred"
    assert not site.tickets.give_go(run_id, job.claim.attempt, left)


def test_a_preparer_that_was_taken_over_removes_its_own_box(site):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    start = site.boxes.start

    def taken_over(box):
        start(box)
        site.runs.finishing(site.runs.facts(run_id).claim)

    site.boxes.start = taken_over

    site.launcher.start(claim)

    assert site.boxes.ours(INSTALLATION) == []


def test_a_box_that_never_asked_for_its_go_is_taken_back(site):
    run_id = a_run(site.database)
    site.started()
    site.offset = "91 seconds"

    site.look()

    assert value(site.database, STATE, id=run_id) == "deferred"
    assert site.nothing_is_left()


def test_a_go_that_comes_at_the_last_moment_wins_over_the_taking_back(site):
    run_id = a_run(site.database)
    claim, _ = site.started()
    stale = site.runs.occupant(run_id)
    site.go(claim)

    # The reconciler had read the row before the go: its epoch is stale now.
    site.finisher.take_back(stale, Departure.UNKNOWN)

    assert value(site.database, STATE, id=run_id) == "running"
    assert len(site.boxes.ours(INSTALLATION)) == 1


def test_a_live_run_of_a_dead_worker_runs_on(site):
    run_id = a_run(site.database)
    claim, _ = site.started()
    site.go(claim)
    silence_worker(site)

    site.look()

    assert value(site.database, STATE, id=run_id) == "running"
    assert len(site.boxes.ours(INSTALLATION)) == 1


def test_orphans_of_this_installation_are_removed_and_others_are_left(site):
    site.boxes.create(a_box(999, 1))
    foreign = site.boxes.create(a_box(999, 1, installation="feedface"))
    site.files.kept[box_name(INSTALLATION, 998, 1)] = {}
    site.files.kept["somebody-elses"] = {}
    site.doors.directories.add(997)

    site.look()

    assert site.boxes.ours(INSTALLATION) == []
    assert site.boxes.inspect(foreign) is not None
    assert site.files.kept == {"somebody-elses": {}}
    assert site.doors.directories == set()


def test_a_run_that_starts_during_a_look_keeps_its_files_and_its_door(site, monkeypatch):
    a_run(site.database)
    read = site.runs.occupants

    def read_and_start(host):
        rows = read(host)
        site.started()
        return rows

    monkeypatch.setattr(site.runs, "occupants", read_and_start)
    site.reconciler.look()

    (box,) = site.boxes.ours(INSTALLATION)
    assert list(site.files.kept) == [box.name]
    assert len(site.doors.opened) == 1


def test_bells_never_exceed_the_room_there_is(site):
    for _ in range(20):
        a_run(site.database)

    site.reconciler.ring()
    assert site.bell.starts == 4  # three slots and one more

    site.bell.waiting = 4
    site.reconciler.ring()
    assert site.bell.starts == 4


def test_a_deferred_run_is_rung_for_when_its_time_has_come(site):
    run_id = a_run(site.database)
    with site.database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET state = 'deferred', cause = 'x', not_before = now() + interval '1 hour'")
        )
    site.reconciler.ring()
    assert site.bell.starts == 0

    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET not_before = now() - interval '1 s'"))
    site.reconciler.ring()
    assert site.bell.starts == 1
    assert site.gate.admit().run_id == run_id


def test_a_second_run_in_a_folder_starts_when_the_first_has_ended(site):
    first = a_run(site.database, folder="/repos/same")
    second = a_run(site.database, folder="/repos/same")
    claim, container = site.started()
    assert claim.run_id == first
    assert site.gate.admit() is None
    site.go(claim)
    site.boxes.finish(container, 0)
    site.finisher.finish(first)

    again = site.gate.admit()

    assert again is not None
    assert again.run_id == second


def test_the_host_row_says_when_it_was_last_looked_at(site):
    site.look()
    site.hosts.beat("h1:1", IDENTITY)

    fresh = row(
        site.database,
        "SELECT reconciled_at > now() - interval '9 s' AS looked FROM hosts WHERE name = :host",
        host=HOST,
    )
    assert fresh == {"looked": True}


def test_a_payload_is_kept_seven_days_after_the_end_and_then_deleted(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0)
    site.finisher.finish(run_id)
    assert value(site.database, "SELECT count(*) FROM run_payloads") == 1
    with site.database.transaction() as connection:
        connection.execute(
            text("UPDATE run_payloads SET expires_at = expires_at - interval '7 days 1 minute'")
        )

    site.look()

    assert value(site.database, "SELECT count(*) FROM run_payloads") == 0
    assert value(site.database, "SELECT count(*) FROM run_history") == 1


def test_a_run_that_silences_three_workers_is_poisoned_and_pays_nothing(site):
    run_id = a_run(site.database)

    for _ in range(3):
        make_due(site, run_id)
        claim = site.gate.admit()
        site.runs.preparing(claim)
        silence_worker(site)
        site.look()
        site.hosts.beat(WORKER, IDENTITY)

    ended = row(site.database, "SELECT state, outcome, reason, why FROM runs WHERE id = :id", id=run_id)
    assert ended == {"state": "ended", "outcome": "failed", "reason": "poisoned", "why": "worker-silent"}
    assert evidence(site, run_id) == ["worker-silent", "worker-silent", "poisoned"]
    assert value(site.database, "SELECT used FROM spend_windows") == 0
    assert site.nothing_is_left()


def make_due(site, run_id):
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET not_before = NULL WHERE id = :id"), {"id": run_id})


def evidence(site, run_id):
    with site.database.transaction() as connection:
        asked = text("SELECT reason FROM run_attempts WHERE run_id = :id ORDER BY attempt")
        return list(connection.execute(asked, {"id": run_id}).scalars())


def test_a_worker_that_left_in_order_does_not_count_against_a_run(site):
    run_id = a_run(site.database)
    site.runs.preparing(site.gate.admit())
    site.hosts.leave(WORKER)

    site.look()

    assert evidence(site, run_id) == ["worker-left"]


def test_a_claim_whose_answer_got_lost_is_taken_back_from_a_living_worker(site):
    run_id = a_run(site.database)
    site.gate.admit()  # committed; the connection broke before the answer
    site.offset = "6 seconds"

    site.look()

    assert value(site.database, "SELECT cause FROM runs WHERE id = :id", id=run_id) == "never-started"
    assert_ledger_is_exact(site.database)


def test_a_run_that_a_thread_is_preparing_is_left_to_it(site):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    site.offset = "6 seconds"

    with site.hands.holding(claim.run_id):
        site.look()

    assert value(site.database, STATE, id=run_id) == "admitted"


def test_a_taking_back_that_could_not_remove_the_box_is_taken_up_again(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.runs.finishing(site.runs.facts(claim.run_id).claim)  # and then the engine went away

    site.look()
    site.hear_finishes()

    assert value(site.database, STATE, id=run_id) == "deferred"
    assert site.boxes.inspect(container) is None
    assert site.nothing_is_left()


def test_a_stop_that_is_not_confirmed_is_told_every_thirty_seconds(site, monkeypatch):
    a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.runs.request_stop(claim.run_id, reason="operator-cancel")
    monkeypatch.setattr(site.boxes, "stop", lambda container_id, grace: None)  # it does not die

    with capture_logs() as logs:
        for seconds in (0, 29, 32, 40, 63):
            site.offset = f"{seconds} seconds"
            site.look()

    alarms = [line for line in logs if line["event"] == "stop_unconfirmed"]
    assert [(line["log_level"], line["box"]) for line in alarms] == [("error", container[:12])] * 2


def test_a_worker_that_is_known_to_be_gone_is_not_waited_for(site):
    run_id = a_run(site.database)
    site.runs.preparing(site.gate.admit())
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET worker = 'h1:2'"))
        connection.execute(text("UPDATE workers SET id = 'h1:2'"))
    site.look()
    assert value(site.database, STATE, id=run_id) == "preparing"

    site.gone_workers.add("h1:2")
    site.look()

    assert evidence(site, run_id) == ["worker-silent"]
