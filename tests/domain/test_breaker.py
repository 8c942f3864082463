"""The breaker of a trigger: a table of its decisions, and the same against a model that keeps the whole story."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain import words
from pidispatch.domain.breaker import (
    CLOSED,
    LONGEST_BACKOFF,
    Breaker,
    Decision,
    Due,
    Ended,
    Rules,
    Step,
    decide,
    failed_at,
)
from pidispatch.domain.run import Outcome
from tests.support.wallclock import utc

NOON = utc(2026, 5, 4, 12)
QUARTER = timedelta(minutes=15)
RULES = Rules(3, QUARTER)
INFRA = Step(Outcome.FAILED, "infra")
OPEN = Breaker(INFRA, 3, NOON, QUARTER, NOON + QUARTER)
TRYING = replace(OPEN, probe="r9")


def failed(reason="infra", run="r1", **more):
    return Ended(run, Outcome.FAILED, reason, **more)


def refused(reason, run="r1"):
    return Ended(run, Outcome.POLICY, reason)


def completed(run="r1"):
    return Ended(run, Outcome.COMPLETED, "completed")


def did_nothing(run="r1"):
    return replace(completed(run), nothing_done=True)


TABLE = [
    ("what did nothing forgets no failure", Breaker(INFRA, 2), did_nothing(), Breaker(INFRA, 2), "counted"),
    ("what did nothing closes nothing", OPEN, did_nothing(), OPEN, "counted"),
    (
        "a probe that did nothing is followed by another",
        TRYING,
        did_nothing("r9"),
        replace(OPEN, probe_at=NOON + QUARTER),
        "counted",
    ),
    ("a first failure is counted", CLOSED, failed(), Breaker(INFRA, 1), "counted"),
    ("the last of k opens it", Breaker(INFRA, 2), failed(), OPEN, "opened"),
    (
        "another step begins to count anew",
        Breaker(INFRA, 2),
        failed("killed"),
        Breaker(Step(Outcome.FAILED, "killed"), 1),
        "counted",
    ),
    (
        "another outcome is another step",
        Breaker(INFRA, 2),
        refused("no-commit"),
        Breaker(Step(Outcome.POLICY, "no-commit"), 1),
        "counted",
    ),
    ("a success forgets", Breaker(INFRA, 2), completed(), CLOSED, "counted"),
    ("a cap says nothing", Breaker(INFRA, 2), refused("over-budget"), Breaker(INFRA, 2), "counted"),
    ("a cancel says nothing", Breaker(INFRA, 2), refused("operator-cancel"), Breaker(INFRA, 2), "counted"),
    ("a second replica says nothing", Breaker(INFRA, 2), failed(replica=2), Breaker(INFRA, 2), "counted"),
    ("the first replica counts", Breaker(INFRA, 2), failed(replica=1), OPEN, "opened"),
    ("a success of any run closes it", OPEN, completed("r1"), CLOSED, "closed"),
    ("the probe's success closes it", TRYING, completed("r9"), CLOSED, "closed"),
    (
        "a failed probe doubles the wait",
        TRYING,
        failed(run="r9"),
        Breaker(INFRA, 4, NOON, 2 * QUARTER, NOON + 2 * QUARTER),
        "counted",
    ),
    (
        "a probe that fails elsewhere is a failed probe",
        TRYING,
        failed("killed", run="r9"),
        Breaker(Step(Outcome.FAILED, "killed"), 4, NOON, 2 * QUARTER, NOON + 2 * QUARTER),
        "counted",
    ),
    (
        "a cancelled probe is followed by another after the same wait",
        TRYING,
        refused("operator-cancel", "r9"),
        OPEN,
        "counted",
    ),
    ("what began before leaves the wait", TRYING, failed(), replace(TRYING, failures=4), "counted"),
    ("what began before and failed elsewhere changes nothing", TRYING, failed("killed"), TRYING, "counted"),
]


@pytest.mark.parametrize(
    ("state", "event", "after", "decision"), [row[1:] for row in TABLE], ids=[r[0] for r in TABLE]
)
def test_an_ending(state, event, after, decision):
    assert decide(state, event, NOON, RULES) == (after, Decision(decision))


DUE_TABLE = [
    ("closed, it starts", CLOSED, 0, CLOSED, "start"),
    ("failing, it starts", Breaker(INFRA, 2), 0, Breaker(INFRA, 2), "start"),
    ("open, it is skipped", OPEN, 14, OPEN, "skip"),
    ("the wait over, it is the probe", OPEN, 15, replace(OPEN, probe="r9"), "probe"),
    ("the probe itself may be asked again", TRYING, 20, TRYING, "probe"),
    ("one probe at a time", replace(OPEN, probe="r8"), 999, replace(OPEN, probe="r8"), "skip"),
]


@pytest.mark.parametrize(
    ("state", "minutes", "after", "decision"), [row[1:] for row in DUE_TABLE], ids=[r[0] for r in DUE_TABLE]
)
def test_what_is_due(state, minutes, after, decision):
    now = NOON + timedelta(minutes=minutes)
    assert decide(state, Due("r9"), now, RULES) == (after, Decision(decision))


def test_zero_failures_never_open_it():
    state = CLOSED
    for _ in range(50):
        state, decision = decide(state, failed(), NOON, Rules(0, QUARTER))
        assert decision is Decision.COUNTED


def test_one_failure_may_be_enough():
    assert decide(CLOSED, failed(), NOON, Rules(1, QUARTER))[1] is Decision.OPENED


def test_the_wait_doubles_up_to_six_hours_and_no_further():
    state, now, waits = OPEN, NOON, []
    for number in range(8):
        now += state.backoff
        state, _ = decide(state, Due(f"p{number}"), now, RULES)
        state, _ = decide(state, failed(run=f"p{number}"), now, RULES)
        waits.append(state.backoff)

    assert waits[:4] == [2 * QUARTER, 4 * QUARTER, 8 * QUARTER, 16 * QUARTER]
    assert waits[4:] == [LONGEST_BACKOFF] * 4


def test_a_first_wait_longer_than_six_hours_stays_as_it_is():
    day = timedelta(days=1)
    state, _ = decide(CLOSED, failed(), NOON, Rules(1, day))
    state, _ = decide(state, Due("p"), NOON + day, Rules(1, day))
    state, _ = decide(state, failed(run="p"), NOON + day, Rules(1, day))

    assert state.backoff == day


@pytest.mark.parametrize(
    "reason",
    ["over-budget", "soft-hold", "scope-cap", "project-cap", "daily-token-cap", "dollar-cap", "cost-cap", "operator-cancel",
     "worker-abort", "runner-policy", "breaker-open", "once-already-spent", None],
)  # fmt: skip
def test_what_says_nothing_of_a_trigger(reason):
    assert failed_at(refused(reason)) is None


@pytest.mark.parametrize("reason", sorted(words.WILL_NOT_HEAL))
def test_what_an_operator_must_mend_counts(reason):
    assert failed_at(refused(reason)) == Step(Outcome.POLICY, reason)


def test_a_failure_without_a_reason_is_a_step_of_its_own():
    assert failed_at(failed(None)) == Step(Outcome.FAILED, "unknown")


@dataclass
class Story:
    """A slow model: it keeps everything that happened since the last success, and reads each answer from it."""

    rules: Rules
    told: list = field(default_factory=list)

    def end(self, event, now):
        if event.outcome is Outcome.COMPLETED:
            self.told.clear()
        else:
            self.told.append((event, now))

    def try_now(self, run, now):
        self.told.append((Due(run), now))

    def stands(self):
        """(failures, step, opened_at, probe_at, probe), by walking through the story."""
        row, step, opened, wait, since, probe = 0, None, None, None, None, None
        for event, now in self.told:
            if isinstance(event, Due):
                probe = event.run
                continue
            mine = event.run == probe
            bad = event.outcome is Outcome.FAILED or event.reason in words.WILL_NOT_HEAL
            if event.replica not in (None, 1) and not mine:
                bad = False
            this = (event.outcome, event.reason)
            if opened is None and bad:
                row, step = (row + 1 if this == step else 1), this
                if self.rules.failures and row >= self.rules.failures:
                    opened, wait, since = now, self.rules.first_backoff, now
            elif opened is not None and mine:
                if bad:
                    row, step = row + 1, this
                    wait = min(wait * 2, max(LONGEST_BACKOFF, self.rules.first_backoff))
                probe, since = None, now
            elif opened is not None and bad and this == step:
                row += 1
        return row, step, opened, None if opened is None else since + wait, probe


WORDS = st.sampled_from(
    [
        (Outcome.FAILED, "infra"),
        (Outcome.FAILED, "killed"),
        (Outcome.POLICY, "no-commit"),
        (Outcome.POLICY, "over-budget"),
        (Outcome.COMPLETED, "completed"),
    ]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["due", "end", "end", "end-probe"]),
        WORDS,
        st.sampled_from([None, None, 1, 2]),
        st.integers(0, 600),
    ),
    max_size=60,
)


@given(STEPS, st.integers(0, 4), st.sampled_from([1, 15, 60 * 24]))
def test_it_agrees_with_a_model_that_keeps_the_whole_story(steps, failures, first):
    rules = Rules(failures, timedelta(minutes=first))
    state, story, now = CLOSED, Story(rules), NOON
    for number, (kind, (outcome, reason), replica, minutes) in enumerate(steps):
        now += timedelta(minutes=minutes)
        _, _, opened, probe_at, probe = story.stands()
        if kind == "due":
            state, decision = decide(state, Due(f"r{number}"), now, rules)
            wanted = "start" if opened is None else "skip" if probe or now < probe_at else "probe"
            if wanted == "probe":
                story.try_now(f"r{number}", now)
        else:
            run = probe if kind == "end-probe" and probe else f"e{number}"
            event = Ended(run, outcome, reason, replica)
            state, decision = decide(state, event, now, rules)
            story.end(event, now)
            is_open = story.stands()[2] is not None
            wanted = "counted" if is_open == (opened is not None) else "opened" if is_open else "closed"
        assert decision == wanted
        row, step, opened, probe_at, probe = story.stands()
        assert (state.failures, state.opened_at, state.probe_at, state.probe) == (
            row,
            opened,
            probe_at,
            probe,
        )
        assert state.step == (None if step is None else Step(*step))
