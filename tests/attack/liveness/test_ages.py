"""No run holds a slot for long in any state without something being red."""

from datetime import UTC, datetime, timedelta

import pytest

from pidispatch.domain.health import STATE_LIMITS, Facts, FaultWord, RowFacts, judge
from pidispatch.domain.healthrows import Passing
from pidispatch.domain.run import OCCUPYING, State
from pidispatch.store.cancelling import cancel
from pidispatch.store.health import row_facts
from tests.flows.test_reconciler import a_box
from tests.store.builders import HOST, a_run

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def red(database):
    return [fault.word for fault in judge(Facts(HOST, rows=row_facts(database))).red]


def sql(database, *statements):
    with database.transaction() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def age(database, seconds):
    """As if nothing had moved for so long, but for the heartbeats of a worker that has long been here."""
    sql(
        database,
        f"UPDATE runs SET state_since = state_since - interval '{seconds} s',"
        f" stop_requested_at = stop_requested_at - interval '{seconds} s',"
        f" deadline_at = deadline_at - interval '{seconds} s'",
        "UPDATE hosts SET heartbeat_at = now(), reconciled_at = now()",
        "UPDATE workers SET heartbeat_at = now()",
    )


def admitted(site):
    return site.gate.admit()


def preparing(site):
    return site.runs.preparing(site.gate.admit()).claim


def boxed(site):
    claim = preparing(site)
    spec = a_box(claim.run_id, claim.attempt)
    return site.runs.boxed(claim, container_id=site.boxes.create(spec), name=spec.name)


def with_its_go(site):
    claim, _ = site.started()
    site.go(claim)
    return claim


def stopping(site):
    claim = with_its_go(site)
    site.runs.stopping(site.runs.facts(claim.run_id).claim, reason="deadline")
    return claim


def finishing(site):
    claim = with_its_go(site)
    site.runs.finishing(site.runs.facts(claim.run_id).claim)
    return claim


STATES = [
    (admitted, 60, FaultWord.RUN_STUCK),
    (preparing, 330, FaultWord.RUN_STUCK),
    (boxed, 120, FaultWord.RUN_STUCK),
    (with_its_go, 90, FaultWord.STOP_UNCONFIRMED),  # the site's deadline is a minute after the go
    (stopping, 30, FaultWord.STOP_UNCONFIRMED),
    (finishing, 90, FaultWord.RUN_STUCK),
]


@pytest.mark.parametrize(("reach", "seconds", "word"), STATES)
def test_each_occupying_state_has_an_age_after_which_it_is_red(site, reach, seconds, word):
    a_run(site.database)
    reach(site)
    age(site.database, seconds - 20)
    assert word not in red(site.database)

    age(site.database, 21)

    assert word in red(site.database)


def test_no_state_that_occupies_is_forgotten():
    """RUNNING stands for both: before the go it passes by itself, after it the deadline counts; STOPPING by its asking."""
    assert {*STATE_LIMITS, State.STOPPING} == set(OCCUPYING)


@pytest.mark.parametrize("reach", [admitted, preparing, boxed, with_its_go, finishing])
def test_a_cancel_that_is_not_confirmed_is_red_whatever_the_state_is_called(site, reach):
    a_run(site.database)
    claim = reach(site)
    cancel(site.database, claim.run_id, actor="ada@h1")
    assert FaultWord.STOP_UNCONFIRMED not in red(site.database)

    age(site.database, 31)

    assert FaultWord.STOP_UNCONFIRMED in red(site.database)


def test_the_asking_counts_from_its_beginning_however_often_the_state_moves(site):
    a_run(site.database)
    claim = with_its_go(site)
    cancel(site.database, claim.run_id, actor="ada@h1")
    age(site.database, 31)
    site.runs.finishing(site.runs.facts(claim.run_id).claim)

    assert FaultWord.STOP_UNCONFIRMED in red(site.database)


def test_a_run_that_ended_by_itself_was_not_asked_to_stop(site):
    a_run(site.database)
    finishing(site)
    age(site.database, 60)

    assert red(site.database) == []


def test_a_sentence_names_the_run_its_state_and_the_way_out():
    passing = [Passing("local-1", "h1", State.FINISHING, NOW - timedelta(seconds=240))]

    (fault,) = judge(Facts("h1", rows=RowFacts(NOW, passing=passing))).red

    assert "local-1 on h1 finishing for 240 s" in fault.sentence
    assert "reconcile_action_failed" in fault.way_out


def test_the_alarm_in_the_log_goes_by_the_asking_too(site):
    run_id = a_run(site.database)
    claim = finishing(site)
    cancel(site.database, claim.run_id, actor="ada@h1")
    age(site.database, 31)

    run = site.runs.occupant(run_id)

    assert run.state is State.FINISHING
    assert site.now() - run.stop_asked_at > timedelta(seconds=30)
