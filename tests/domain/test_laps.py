"""The stopwatch of an act's steps."""

from pidispatch.flows.checks import Laps


def test_each_step_counts_from_the_one_before_and_a_repeated_step_adds_up():
    seconds = iter([1.0, 1.25, 1.5, 2.0])
    laps = Laps(lambda: next(seconds))

    laps.lap("look")
    laps.lap("check")
    laps.lap("look")

    assert laps.milliseconds() == {"look": 750.0, "check": 250.0}
