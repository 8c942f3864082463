"""The gate before a provider's key: single steps, and a machine that keeps what must always hold."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from pidispatch.domain.providers.pressure import (
    JITTER,
    LONGEST_PAUSE,
    LONGEST_WINDOW,
    MOST_JITTER,
    OPEN,
    PROBE_PATIENCE,
    Abandoned,
    Busy,
    Heard,
    NotBefore,
    Pass,
    ask,
    pause_after,
    tell,
)


def refused(gate, now=0.0, *, leave=None, pause=None, jitter=0.0):
    return tell(gate, leave or Pass(), Busy(pause), now=now, jitter=jitter)


def probing(gate, now):
    gate, leave = ask(gate, now)
    assert isinstance(leave, Pass)
    assert leave.probe
    return gate, leave


def test_an_open_key_lets_every_call_through():
    assert ask(OPEN, 0.0) == (OPEN, Pass())


def test_a_refusal_closes_the_key_for_as_long_as_the_provider_asked():
    gate = refused(OPEN, pause=30.0)

    assert ask(gate, 29.9)[1] == NotBefore(30.0)
    assert ask(gate, 30.0)[1] == Pass(1)


def test_after_the_pause_one_probe_goes_and_the_others_wait_for_its_answer():
    gate, leave = probing(refused(OPEN, pause=2.0), 2.0)

    assert ask(gate, 3.0)[1] == NotBefore(2.0 + PROBE_PATIENCE)
    gate = tell(gate, leave, Heard(), now=3.0, jitter=0.0)
    assert ask(gate, 3.0)[1] == Pass()


def test_a_probe_that_was_abandoned_makes_room_for_the_next_at_once():
    gate, leave = probing(refused(OPEN), 1.0)

    gate = tell(gate, leave, Abandoned(), now=1.5, jitter=0.0)

    assert ask(gate, 1.5)[1] == Pass(2)


def test_a_probe_that_is_worked_on_for_long_does_not_keep_the_others():
    gate, first = probing(refused(OPEN), 1.0)

    gate, second = probing(gate, 1.0 + PROBE_PATIENCE)

    assert second != first
    assert ask(tell(gate, first, Heard(), now=40.0, jitter=0.0), 40.0)[1] == Pass()


def test_pauses_grow_up_to_five_minutes_and_begin_anew_after_a_calm_time():
    gate, now, pauses = refused(OPEN), 0.0, []
    for _ in range(12):
        pauses.append(gate.until - now)
        now = gate.until
        gate, leave = probing(gate, now)
        gate = refused(gate, now, leave=leave)
    gate, leave = probing(gate, gate.until)
    gate = tell(gate, leave, Heard(), now=5000.0, jitter=0.0)

    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert refused(gate, 5010.0).until == 5010.0 + LONGEST_PAUSE
    assert refused(gate, 5060.0).until == 5061.0


def test_twenty_calls_refused_at_the_same_moment_are_one_refusal():
    gate = refused(OPEN, pause=5.0)

    for _ in range(19):
        gate = refused(gate, 0.1, pause=4.0)

    assert (gate.until, gate.refusals) == (5.0, 1)


def test_a_late_refusal_may_tell_of_a_longer_pause():
    assert refused(refused(OPEN, pause=5.0), 1.0, pause=60.0).until == 61.0


def test_a_refused_probe_does_not_shorten_what_another_call_was_told_meanwhile():
    gate, leave = probing(refused(OPEN), 1.0)

    gate = refused(gate, 1.5, pause=60.0)

    assert refused(gate, 2.0, leave=leave).until == 61.5


def test_an_answer_to_a_call_that_was_sent_before_the_refusal_opens_nothing():
    gate = refused(OPEN, pause=5.0)

    assert tell(gate, Pass(), Heard(), now=1.0, jitter=0.0) == gate


@pytest.mark.parametrize(("pause", "most"), [(10.0, 12.0), (3600.0, 3605.0), (10 * 86400.0, 86400.0)])
def test_jitter_comes_on_top_and_no_window_is_longer_than_a_day(pause, most):
    assert refused(OPEN, pause=pause, jitter=1.0).until == most


class Key(RuleBasedStateMachine):
    """Any number of calls, with any answers in any order, on a clock that only goes forward."""

    passes = Bundle("passes")

    def __init__(self):
        super().__init__()
        self.gate, self.now = OPEN, 0.0
        self.probes_given = []

    @rule(seconds=st.floats(0, 2 * LONGEST_WINDOW) | st.floats(0, 3))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(target=passes)
    def a_call_asks(self):
        before = self.gate
        self.gate, answer = ask(self.gate, self.now)
        if isinstance(answer, NotBefore):
            assert answer.at > self.now
            assert self.gate == before
            return Pass()
        if before.until is None:
            assert answer == Pass()
            return answer
        assert self.now >= before.until
        if before.probing_since is not None:
            assert self.now >= before.probing_since + PROBE_PATIENCE
        assert answer.probe not in self.probes_given
        self.probes_given.append(answer.probe)
        return answer

    @rule(leave=consumes(passes), pause=st.none() | st.floats(0, 3 * LONGEST_WINDOW), jitter=st.floats(0, 1))
    def a_call_is_refused(self, leave, pause, jitter):
        before = self.gate
        self.gate = tell(self.gate, leave, Busy(pause), now=self.now, jitter=jitter)
        assert self.gate.until is not None
        if pause is not None:
            assert self.gate.until >= self.now + min(pause, LONGEST_WINDOW)
        if before.until is not None:
            assert self.gate.until >= before.until
            assert self.gate.refusals <= before.refusals + 1

    @rule(leave=consumes(passes), end=st.sampled_from([Heard(), Abandoned()]))
    def a_call_ends_otherwise(self, leave, end):
        before = self.gate
        self.gate = tell(self.gate, leave, end, now=self.now, jitter=0.5)
        if before.until is not None and self.gate.until is None:
            assert leave.probe
            assert isinstance(end, Heard)

    @invariant()
    def it_opens_again_within_a_day_if_nobody_is_refused(self):
        gate, at = self.gate, self.now
        for _ in range(3):
            gate, answer = ask(gate, at)
            if isinstance(answer, Pass):
                return
            assert answer.at <= self.now + LONGEST_WINDOW + PROBE_PATIENCE
            at = answer.at
        raise AssertionError(self.gate)


TestKey = Key.TestCase
TestKey.settings = settings(deadline=None)


@pytest.mark.parametrize("refusals", [1, 2, 20, 10_000])
def test_a_pause_is_bounded_whatever_the_count(refusals):
    assert 0 < pause_after(refusals) <= LONGEST_PAUSE
    assert MOST_JITTER >= JITTER
