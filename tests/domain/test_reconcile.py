"""What the reconciler does, as a table over row, box and time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from pidispatch.domain.runs.reconcile import Action, Box, act, stop_is_unconfirmed
from pidispatch.domain.runs.run import Occupant, State

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUNNING = Occupant(
    run_id=1,
    public_id="local-1",
    state=State.RUNNING,
    attempt=1,
    epoch=4,
    container_id="c1",
    worker="h1:1",
    worker_beat=NOW - timedelta(seconds=1),
    state_since=NOW - timedelta(seconds=5),
    go_at=NOW - timedelta(seconds=4),
    deadline_at=NOW + timedelta(minutes=30),
    stop_reason=None,
)
NO_GO = replace(RUNNING, go_at=None, deadline_at=None)
PREPARING = replace(NO_GO, state=State.PREPARING, container_id=None)
SILENT = NOW - timedelta(seconds=16)
CREATED, ALIVE, ENDED = (
    Box(ended=False, running=False),
    Box(ended=False, running=True),
    Box(ended=True, running=False),
)


@pytest.mark.parametrize(
    ("run", "box", "action"),
    [
        (RUNNING, ALIVE, Action.WAIT),
        (RUNNING, ENDED, Action.FINISH),
        (RUNNING, None, Action.LOST),
        (replace(RUNNING, deadline_at=NOW), ALIVE, Action.STOP),
        (replace(RUNNING, deadline_at=NOW), ENDED, Action.FINISH),
        (replace(RUNNING, stop_reason="operator-cancel"), ALIVE, Action.STOP),
        (replace(RUNNING, worker_beat=SILENT), ALIVE, Action.WAIT),
        (replace(RUNNING, worker_beat=None), ALIVE, Action.WAIT),
        (replace(RUNNING, state=State.STOPPING), ALIVE, Action.STOP),
        (replace(RUNNING, state=State.STOPPING), ENDED, Action.FINISH),
        (replace(RUNNING, state=State.STOPPING), None, Action.LOST),
        (replace(RUNNING, state=State.FINISHING), None, Action.FINISH),
        (replace(RUNNING, state=State.FINISHING), ENDED, Action.FINISH),
        (NO_GO, ALIVE, Action.WAIT),
        (NO_GO, CREATED, Action.WAIT),
        (NO_GO, None, Action.NEVER_STARTED),
        (NO_GO, ENDED, Action.FINISH),
        (replace(NO_GO, worker_beat=SILENT), CREATED, Action.NEVER_STARTED),
        (replace(NO_GO, worker_beat=SILENT), ALIVE, Action.WAIT),
        (replace(NO_GO, state_since=NOW - timedelta(seconds=91)), ALIVE, Action.NEVER_STARTED),
        (replace(NO_GO, state_since=NOW - timedelta(seconds=91)), CREATED, Action.NEVER_STARTED),
        (PREPARING, None, Action.WAIT),
        (replace(PREPARING, worker_beat=SILENT), None, Action.NEVER_STARTED),
        (replace(PREPARING, worker_beat=None), None, Action.NEVER_STARTED),
        (replace(PREPARING, state_since=NOW - timedelta(seconds=301)), None, Action.NEVER_STARTED),
        (replace(PREPARING, stop_reason="operator-cancel"), None, Action.NEVER_STARTED),
        (replace(PREPARING, state=State.ADMITTED, worker_beat=SILENT), None, Action.NEVER_STARTED),
        (replace(PREPARING, state=State.ADMITTED), None, Action.WAIT),
    ],
)
def test_the_table(run, box, action):
    assert act(run, box, NOW) is action


LONG_AGO = NOW - timedelta(seconds=6)


@pytest.mark.parametrize(
    ("run", "box", "action"),
    [
        (replace(PREPARING, state_since=LONG_AGO), None, Action.NEVER_STARTED),
        (replace(PREPARING, state=State.ADMITTED, state_since=LONG_AGO), None, Action.NEVER_STARTED),
        (replace(PREPARING, state=State.ADMITTED), None, Action.WAIT),
        (replace(NO_GO, state_since=LONG_AGO), CREATED, Action.NEVER_STARTED),
        (replace(NO_GO, state_since=LONG_AGO), ALIVE, Action.WAIT),
        (replace(RUNNING, state_since=LONG_AGO), ALIVE, Action.WAIT),
    ],
)
def test_what_a_living_worker_has_dropped_is_taken_back_after_five_seconds(run, box, action):
    assert act(run, box, NOW, dropped=True) is action


@pytest.mark.parametrize(
    ("run", "box", "action"),
    [
        (PREPARING, None, Action.NEVER_STARTED),
        (replace(PREPARING, state=State.ADMITTED), None, Action.NEVER_STARTED),
        (NO_GO, CREATED, Action.NEVER_STARTED),
        (NO_GO, ALIVE, Action.WAIT),
        (RUNNING, ALIVE, Action.WAIT),
        (RUNNING, ENDED, Action.FINISH),
    ],
)
def test_what_a_worker_that_is_gone_had_in_hand_is_taken_back_at_once(run, box, action):
    assert act(run, box, NOW, gone=True) is action


@pytest.mark.parametrize(("seconds", "told"), [(30, False), (31, True)])
def test_a_stop_is_unconfirmed_after_thirty_seconds(seconds, told):
    run = replace(RUNNING, state=State.FINISHING, stop_asked_at=NOW - timedelta(seconds=seconds))

    assert stop_is_unconfirmed(run, NOW) is told


def test_a_run_that_nobody_asked_to_stop_is_no_unconfirmed_stop():
    assert not stop_is_unconfirmed(replace(RUNNING, state_since=NOW - timedelta(hours=1)), NOW)
