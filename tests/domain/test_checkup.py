"""Rows and boxes are matched by container, run and attempt; what does not last is no difference."""

from datetime import UTC, datetime

import pytest

from pidispatch.domain.health.checkup import Differences, SeenBox, differences
from pidispatch.domain.runs.run import OCCUPYING, Occupant, State

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def a_row(state=State.RUNNING, container="c1", run=1, attempt=1):
    return Occupant(run, f"local-{run}", state, attempt, 3, container, "w", NOW, NOW, NOW, None, None)


def a_box(container="c1", run=1, attempt=1, *, alive=True):
    return SeenBox(container, f"pi-job-0badcafe-{run}-{attempt}", run, attempt, alive)


def test_a_running_row_with_its_box_is_no_difference():
    assert not differences([a_box()], [a_row()])
    assert not differences([], [])


@pytest.mark.parametrize("state", OCCUPYING)
def test_only_a_run_that_should_have_a_box_misses_one(state):
    found = differences([], [a_row(state)])

    assert bool(found.boxless) == (state in {State.RUNNING, State.STOPPING})


def test_an_ended_box_that_nobody_collects_is_named():
    found = differences([a_box(alive=False)], [a_row()])

    assert found.ended == {(1, 1): "local-1 is running, but pi-job-0badcafe-1-1 has ended"}
    assert not differences([a_box(alive=False)], [a_row(State.FINISHING)])


@pytest.mark.parametrize("box", [a_box("c9", run=9), a_box("c9", attempt=2), a_box("c9", run=None)])
def test_a_box_without_a_run_that_goes_on_is_an_orphan(box):
    found = differences([a_box(), box], [a_row()])

    assert found.orphans == {"c9": f"{box.name} (c9) belongs to no run that is going on"}


def test_a_box_of_a_run_that_is_being_prepared_is_no_orphan():
    assert not differences([a_box()], [a_row(State.PREPARING, container=None)])


def test_only_what_both_looks_saw_lasts():
    first = Differences({(1, 1): "a", (2, 1): "b"}, {(3, 1): "c"}, {"c4": "d"})
    later = Differences({(2, 1): "b"}, {(3, 2): "c"}, {"c4": "d", "c5": "e"})

    assert first.lasting(later) == Differences({(2, 1): "b"}, {}, {"c4": "d"})
    assert not Differences({(1, 1): "a"}, {}, {}).lasting(Differences({}, {}, {}))
