"""Whose calls wait when a model is refused: single stories, and a machine that keeps what must always hold."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from pidispatch.domain.providers.lanes import MOST_LANES, ONE_WORD, LaneKey, Leave, ask, tell
from pidispatch.domain.providers.pressure import (
    LONGEST_WINDOW,
    PROBE_PATIENCE,
    Abandoned,
    Busy,
    Heard,
    NotBefore,
)

A, B, C = 1, 2, 3


class Story:
    """Calls of one key on a clock of the story's own."""

    def __init__(self):
        self.key, self.now = LaneKey(), 0.0

    def ask(self, run, model="m"):
        self.key, answer = ask(self.key, model, run, self.now)
        return answer

    def waits(self, run, model="m"):
        """For how long, without asking."""
        _, answer = ask(self.key, model, run, self.now)
        return answer.at - self.now if isinstance(answer, NotBefore) else 0

    def met(self, run, end, model="m"):
        leave = self.ask(run, model)
        assert isinstance(leave, Leave), leave
        self.tell(run, leave, end, model)

    def tell(self, run, leave, end, model="m"):
        self.key = tell(self.key, model, run, leave, end, now=self.now, jitter=0.0)


def test_a_refusal_rests_the_model_for_all_and_no_other_model():
    story = Story()

    story.met(A, Busy(5.0))

    assert (story.waits(A), story.waits(B)) == (5, 5)
    assert (story.waits(A, "n"), story.waits(B, "n")) == (0, 0)


def test_one_runs_word_holds_the_others_for_a_moment_only():
    story = Story()

    story.met(A, Busy(3600.0))

    assert (story.waits(A), story.waits(B)) == (3600, ONE_WORD)
    assert story.key.busy_until("m", A, 0.0) == 3600
    assert story.key.busy_until("m", None, 0.0) == ONE_WORD


def test_a_run_that_is_refused_where_another_is_answered_waits_alone_from_then_on():
    story = Story()
    story.met(A, Busy(60.0))
    story.now = ONE_WORD
    story.met(B, Heard())
    waited = []

    for _ in range(20):
        story.now += story.waits(A)
        story.met(A, Busy(60.0))
        waited.append(story.waits(B))
        story.met(B, Heard())

    assert set(waited) == {0}


def test_a_run_alone_with_its_refusals_is_found_out_though_no_pause_is_told():
    story = Story()
    waited = 0.0
    for _ in range(20):
        story.now += story.waits(A)
        story.met(A, Busy())
        waited += story.waits(B)
        story.now += story.waits(B)
        story.met(B, Heard())

    assert waited <= 3
    assert story.waits(A) > 60


def test_a_run_that_is_refused_and_answered_by_turns_costs_others_less_and_less():
    story, waited = Story(), 0.0
    while story.now < 3600:
        story.now += story.waits(A)
        story.met(A, Busy())
        held = story.waits(B)
        waited += held
        story.now += held
        story.met(B, Heard())
        story.now += story.waits(A)
        story.met(A, Heard())

    assert waited < 3600 * 0.1


def test_two_runs_words_hold_all_for_as_long_as_was_told():
    story = Story()
    story.met(A, Busy(3600.0))
    story.now = ONE_WORD

    story.met(B, Busy(3590.0))

    assert story.waits(C) == 3590


def test_a_lone_run_counts_again_once_all_are_refused():
    story = Story()
    story.met(A, Busy(20.0))
    story.now = ONE_WORD
    story.met(B, Heard())
    story.now = 30.0
    story.met(B, Busy(100.0))
    story.now = 40.0

    story.met(A, Busy(90.0))

    assert story.waits(C) == 90


def test_the_account_rests_when_the_answer_speaks_of_it():
    story = Story()

    story.met(A, Busy(3600.0, account=True))

    assert [story.waits(B, model) for model in "mn"] == [3600, 3600]
    assert list(story.key.busy(0.0)) == [(None, 3600.0)]


def test_several_runs_refused_with_several_models_rest_the_account_until_one_is_answered():
    story = Story()
    story.met(A, Busy(3600.0), "m")
    story.met(B, Busy(3600.0), "n")

    assert story.waits(C, "o") == 1

    story.now = 1.0
    story.met(C, Heard(), "o")
    story.now = 4000.0
    story.met(A, Busy(3600.0), "m")
    story.met(B, Busy(3600.0), "n")
    assert story.waits(C, "o") == 0  # both were refused where another was answered


def test_one_run_with_many_models_rests_no_account():
    story = Story()

    for number in range(20):
        story.met(A, Busy(3600.0), f"m{number}")

    assert story.waits(B, "n") == 0


def test_names_that_a_box_makes_up_fill_no_memory():
    story = Story()

    for number in range(3 * MOST_LANES):
        story.met(A, Busy(3600.0), f"m{number}")

    assert len(story.key.lanes) <= MOST_LANES


def test_what_is_over_leaves_nothing_behind():
    story = Story()
    story.met(A, Busy(5.0))
    story.now = 5.0
    story.met(A, Heard())
    story.now = 100.0

    story.met(A, Heard())

    assert story.key.lanes == {}


class Calls(RuleBasedStateMachine):
    """Any number of calls of some runs and models, with any answers in any order."""

    passes = Bundle("passes")

    def __init__(self):
        super().__init__()
        self.key, self.now = LaneKey(), 0.0

    @rule(seconds=st.floats(0, 2 * LONGEST_WINDOW) | st.floats(0, 12))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(target=passes, run=st.integers(1, 3), model=st.sampled_from("mn"))
    def a_call_asks(self, run, model):
        before = self.key
        self.key, answer = ask(self.key, model, run, self.now)
        if isinstance(answer, NotBefore):
            assert answer.at > self.now
            assert self.key == before
            return run, model, Leave()
        return run, model, answer

    @rule(
        call=consumes(passes),
        end=st.builds(Busy, st.none() | st.floats(0, 2 * LONGEST_WINDOW), st.booleans())
        | st.sampled_from([Heard(), Abandoned()]),
        jitter=st.floats(0, 1),
    )
    def a_call_ends(self, call, end, jitter):
        run, model, leave = call
        spoken = {each for each, own in self.key.lane(model).runs.items() if own.speaks(self.now)}
        shared = self.key.lane(model).shared.until
        self.key = tell(self.key, model, run, leave, end, now=self.now, jitter=jitter)
        if isinstance(end, Busy) and not end.account and end.pause is not None:
            until = self.key.busy_until(model, run, self.now) or self.now
            assert until >= self.now + min(end.pause, LONGEST_WINDOW)  # whoever was told keeps to it
            if not spoken - {run}:
                most = max(shared or self.now, self.now + ONE_WORD)
                assert (self.key.lane(model).shared.until or 0) <= most

    @invariant()
    def every_run_may_go_within_a_day_if_nobody_is_refused(self):
        for run in (1, 2, 3, 4):
            key, at = self.key, self.now
            for _ in range(8):
                key, answer = ask(key, "m", run, at)
                if isinstance(answer, Leave):
                    break
                assert answer.at <= self.now + LONGEST_WINDOW + PROBE_PATIENCE
                at = answer.at
            else:
                raise AssertionError(self.key)


TestCalls = Calls.TestCase
TestCalls.settings = settings(deadline=None, max_examples=60)


@pytest.mark.parametrize("end", [Heard(), Abandoned()])
def test_a_probe_of_two_gates_is_given_back_to_both(end):
    story = Story()
    story.met(A, Busy(5.0))
    story.now = 5.0
    leave = story.ask(A)
    assert (leave.shared.probe, leave.own.probe) == (1, 1)
    assert story.waits(B) > 0

    story.tell(A, leave, end)

    assert story.waits(B) == 0
