"""What a held run waits for, when it is asked after, and when it is given up."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.triggers import WaitAfter, WaitProfile
from pidispatch.domain.waiting import (
    Answer,
    AskPrograms,
    Bounds,
    GiveUp,
    HeldRun,
    Hold,
    Progress,
    Start,
    answer_of,
    broken_off,
    first_step,
    next_step,
    pause,
    read,
    written,
)

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
BOUNDS = Bounds()
CI, REVIEW = WaitProfile("ci"), WaitProfile("review")


def held(*conditions, progress=None, **more):
    conditions = more.pop("conditions", conditions)
    return HeldRun(
        run_id=7,
        public_id="gh-7",
        epoch=1,
        target="acme/web#7",
        pinned_host=None,
        key="k#0",
        conditions=conditions,
        asking=False,
        progress=progress or Progress(),
        now=NOON,
        **more,
    )


def first(run):
    return first_step(run, profiles={"ci", "review"}, bounds=BOUNDS)


def after(delta):
    return WaitAfter(NOON + delta)


BEFORE = Progress(held_since=NOON - DAY)


@pytest.mark.parametrize(
    ("run", "step"),
    [
        (held(after(HOUR)), Hold(NOON + HOUR, Progress(NOON), asking=False)),
        (held(after(HOUR), progress=BEFORE), Hold(NOON + HOUR, BEFORE, asking=False)),
        (held(after(timedelta(seconds=1))), Start(Progress())),
        (held(after(timedelta(seconds=1, microseconds=1))), Hold(NOON + timedelta(seconds=1, microseconds=1), Progress(NOON), asking=False)),
        (held(after(-DAY)), Start(Progress())),
        (held(after(30 * DAY)), Hold(NOON + 30 * DAY, Progress(NOON), asking=False)),
        (held(after(30 * DAY + MINUTE)), GiveUp("wait-after-beyond-max", Progress())),
        (held(after(31 * DAY), progress=BEFORE), Hold(NOON + 31 * DAY, BEFORE, asking=False)),
        (held(REVIEW, CI), AskPrograms(("review", "ci"))),
        (held(CI, after(-HOUR)), AskPrograms(("ci",))),
        (held(CI, after(HOUR)), Hold(NOON + HOUR, Progress(NOON), asking=False)),
        (held(WaitProfile("gone")), GiveUp("wait-profile-unknown", Progress())),
        (held(WaitProfile("gone"), after(99 * DAY)), GiveUp("wait-profile-unknown", Progress())),
        (held(conditions=None), GiveUp("wait-unreadable", Progress())),
        (held(conditions=None, held_by=5), GiveUp("wait-unreadable", Progress())),
        (held(conditions=None, started_by=5), GiveUp("wait-superseded", Progress(), for_run=5)),
        (held(CI, held_by=5), GiveUp("wait-superseded", Progress(), for_run=5)),
        (held(CI, after(HOUR), held_by=5), Hold(NOON + HOUR, Progress(NOON), asking=False)),
        (held(CI, started_by=4, held_by=5), GiveUp("wait-superseded", Progress(), for_run=4)),
        (held(after(-HOUR), held_by=5), Start(Progress())),
    ],
)  # fmt: skip
def test_what_needs_no_program_is_decided_in_the_order_of_the_reference(run, step):
    assert first(run) == step


@pytest.mark.parametrize(
    ("code", "answer"),
    [(0, Answer.GO), (3, Answer.NOT_YET), (2, Answer.NEVER)]
    + [(code, Answer.FAULT) for code in (None, 1, 4, 126, 127, 255, -9, -15, 256, 3.5, "0", True)],
)
def test_only_three_exit_codes_say_something(code, answer):
    assert answer_of(code) is answer


@pytest.mark.parametrize(
    ("progress", "answer", "reason"),
    [
        (Progress(), Answer.NEVER, "wait-refused"),
        (Progress(NOON - DAY, NOON - DAY, checks=95, faults=4), Answer.NEVER, "wait-refused"),
        (Progress(NOON - HOUR, NOON - HOUR, checks=9, faults=4), Answer.FAULT, "wait-unanswerable"),
        (Progress(NOON - DAY, NOON - DAY, checks=95, faults=4), Answer.FAULT, "wait-unanswerable"),
        (Progress(NOON - HOUR, NOON - HOUR, checks=95), Answer.NOT_YET, "wait-expired"),
        (Progress(NOON - HOUR, NOON - HOUR, checks=95), Answer.FAULT, "wait-expired"),
        (Progress(NOON - DAY, NOON - DAY, checks=3), Answer.NOT_YET, "wait-expired"),
        (Progress(NOON - 40 * DAY, NOON - DAY + MINUTE, checks=3), Answer.NOT_YET, None),
        (Progress(NOON - HOUR, NOON - HOUR, checks=9, faults=4), Answer.NOT_YET, None),
        (Progress(NOON - 40 * DAY), Answer.NOT_YET, None),
    ],
)
def test_a_wait_is_given_up_after_the_check_that_reaches_a_bound(progress, answer, reason):
    step = next_step(progress, "ci", answer, bounds=BOUNDS, now=NOON, jitter=0)

    assert (step.reason if isinstance(step, GiveUp) else None) == reason
    assert (step.progress.last_profile, step.progress.last_answer, step.progress.last_at) == (
        "ci",
        answer,
        NOON,
    )


@given(st.integers(0, 10**6), st.integers(0, 100), st.timedeltas(timedelta(0), 400 * DAY))
def test_a_last_check_that_says_go_lets_the_run_go(checks, faults, waited):
    progress = Progress(NOON - waited, NOON - waited, checks, faults)

    assert isinstance(next_step(progress, "ci", Answer.GO, bounds=BOUNDS, now=NOON, jitter=0), Start)


def test_a_run_that_is_let_go_by_its_first_check_was_never_held():
    assert (
        next_step(Progress(), "ci", Answer.GO, bounds=BOUNDS, now=NOON, jitter=0).progress.held_since is None
    )


def test_an_answer_forgets_the_faults_before_it():
    progress = Progress(NOON, NOON, checks=7, faults=4)

    step = next_step(progress, "ci", Answer.NOT_YET, bounds=BOUNDS, now=NOON, jitter=0)

    assert (step.progress.checks, step.progress.faults) == (8, 0)


def test_a_check_that_was_broken_off_counts_as_nothing():
    progress = Progress(NOON - HOUR, NOON - HOUR, 7, 4, "ci", Answer.FAULT, NOON - MINUTE)

    assert broken_off(progress, NOON) == Hold(NOON + timedelta(seconds=11), progress, asking=True)


@pytest.mark.parametrize(
    ("elapsed", "seconds"),
    [
        (timedelta(0), 60),
        (10 * MINUTE - timedelta(seconds=1), 60),
        (10 * MINUTE, 120),
        (20 * MINUTE, 240),
        (30 * MINUTE, 480),
        (40 * MINUTE, 900),
        (20 * HOUR, 900),
        (DAY - 5 * MINUTE, 300),
        (DAY - timedelta(milliseconds=1), 1),
        (timedelta(seconds=-1), 60),
    ],
)
def test_checks_become_rarer_up_to_one_in_a_quarter_of_an_hour(elapsed, seconds):
    assert pause(elapsed, BOUNDS, 0) == timedelta(seconds=seconds)


def test_an_interval_over_a_quarter_of_an_hour_stays_as_it_is():
    bounds = Bounds(interval=HOUR, wait_max=100 * DAY)

    assert pause(50 * DAY, bounds, 0) == HOUR


def slow_pause(elapsed, bounds, jitter):
    """The same in whole microseconds, doubling step by step."""
    micro = timedelta(microseconds=1)
    interval, longest = bounds.interval // micro, max(15 * MINUTE, bounds.interval) // micro
    now, passed = interval, 10 * interval
    while passed <= elapsed // micro and now < longest:
        now, passed = now * 2, passed + 10 * interval
    with_jitter = min(now, longest) * (1 + jitter / 10)
    return max(10**6, min(with_jitter, (bounds.wait_max - elapsed) // micro))


INTERVALS = st.timedeltas(timedelta(seconds=30), timedelta(days=36_500))


@given(st.timedeltas(timedelta(0), 400 * DAY), INTERVALS, INTERVALS, st.floats(0, 1))
def test_the_pause_is_that_of_a_slow_model(elapsed, interval, wait_max, jitter):
    bounds = Bounds(interval=interval, wait_max=wait_max)

    found = pause(elapsed, bounds, jitter)

    assert (
        abs(found / timedelta(microseconds=1) - slow_pause(elapsed, bounds, jitter))
        <= 1 + found.total_seconds() / 1e3
    )
    assert found >= timedelta(seconds=1)


def slow_wait(answers, bounds):
    """Which of a row of answers, one at each wake, ends the wait, and how."""
    began = now = NOON
    faults = 0
    for number, answer in enumerate(answers, start=1):
        faults = faults + 1 if answer is Answer.FAULT else 0
        match answer:
            case Answer.GO:
                return number, "started"
            case Answer.NEVER:
                return number, "wait-refused"
        if faults == bounds.faults_max:
            return number, "wait-unanswerable"
        if number >= bounds.checks_max or now - began >= bounds.wait_max:
            return number, "wait-expired"
        now += pause(now - began, bounds, 0.5)
    return None


@given(
    st.lists(st.sampled_from(Answer), max_size=60).map(lambda answers: [*answers, *[Answer.NOT_YET] * 40]),
    st.builds(
        Bounds,
        interval=st.timedeltas(timedelta(seconds=30), HOUR),
        wait_max=st.timedeltas(timedelta(seconds=1), 2 * DAY),
        checks_max=st.integers(1, 90),
        faults_max=st.integers(1, 6),
    ),
)
def test_a_wait_ends_as_a_slow_model_says_and_always_ends(answers, bounds):
    progress, now, ended = Progress(), NOON, None
    for number, answer in enumerate(answers, start=1):
        step = next_step(progress, "ci", answer, bounds=bounds, now=now, jitter=0.5)
        if not isinstance(step, Hold):
            ended = number, "started" if isinstance(step, Start) else step.reason
            break
        assert step.until - NOON <= bounds.wait_max + timedelta(seconds=1)
        progress, now = step.progress, step.until

    assert ended == slow_wait(answers, bounds)


INSTANTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)
CONDITIONS = st.builds(WaitAfter, INSTANTS) | st.builds(WaitProfile, NAMES)


@given(st.lists(CONDITIONS, min_size=1, max_size=4))
def test_conditions_are_read_as_they_were_written(conditions):
    assert read(written(conditions)) == tuple(conditions)


@pytest.mark.parametrize(
    "kept",
    [
        None, [], {}, "after", [{}], [{"after": "tomorrow"}], [{"after": 7}], [{"profile": ""}], [{"profile": "a b"}],
        [{"profile": "ci", "mode": "any"}], [{"quiet": "10m"}], [{"profile": "ci"}, {"quiet": "10m"}], [["profile", "ci"]],
        [{"profile": str(number)} for number in range(5)],
    ],
)  # fmt: skip
def test_conditions_of_a_newer_version_are_not_understood(kept):
    assert read(kept) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["after", "profile", "x"]), inner)
    ),
    max_leaves=12,
)


@given(JSON)
def test_reading_what_is_kept_never_fails(kept):
    found = read(kept)

    assert found is None or len(found) == len(kept)
