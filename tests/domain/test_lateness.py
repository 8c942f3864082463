"""Why a run of a schedule is late: nothing is said of one that is on time, nothing is left out of one that is not."""

from datetime import timedelta

import pytest

from pidispatch.domain.schedules.lateness import Cause, SlotFacts, Why, lateness
from tests.support.wallclock import utc

PLANNED = utc(2027, 5, 3, 3)


def after(seconds):
    return PLANNED + timedelta(seconds=seconds)


def facts(decided=0, **more):
    return SlotFacts(PLANNED, after(decided), **more)


def test_a_run_that_started_at_its_instant_has_no_cause():
    found = lateness(facts(admitted_at=after(0.1), started_at=after(0.8)), after(100))

    assert (found.seconds, found.started, found.causes) == (0.8, True, ())


@pytest.mark.parametrize(
    ("seen", "causes"),
    [
        (facts(40, admitted_at=after(40), started_at=after(41)), [Cause(Why.NOT_PLANNED, after(40))]),
        (
            facts(7200, reason="catch-up", admitted_at=after(7500), started_at=after(7501)),
            [Cause(Why.NOT_PLANNED, after(7200)), Cause(Why.CATCH_UP)],
        ),
        (
            facts(admitted_at=after(60), started_at=after(61), busy_with="local-1", busy_until=after(59)),
            [Cause(Why.FOLDER_BUSY, after(59), "local-1")],
        ),
        (
            facts(admitted_at=after(60), started_at=after(61), paused_until=after(50)),
            [Cause(Why.PAUSED, after(50))],
        ),
        (facts(admitted_at=after(60), started_at=after(61)), [Cause(Why.WAITED, after(60))]),
        (facts(admitted_at=after(1), started_at=after(9), attempts=1), [Cause(Why.PREPARED, after(9))]),
        (facts(admitted_at=after(1), started_at=after(90), attempts=2), [Cause(Why.TRIED_AGAIN, after(90))]),
    ],
)
def test_what_held_it_is_told(seen, causes):
    found = lateness(seen, after(10_000))

    assert list(found.causes) == causes


def test_a_run_that_waits_is_late_until_now():
    found = lateness(facts(reason="catch-up"), after(30))

    assert (found.seconds, found.started) == (30, False)
    assert found.causes == (Cause(Why.CATCH_UP),)


@pytest.mark.parametrize(("freed", "told"), [(295, True), (200, False)])
def test_what_ended_while_it_waited_to_be_made_up_for_did_not_hold_it(freed, told):
    seen = facts(
        reason="catch-up",
        admitted_at=after(300),
        started_at=after(301),
        busy_with="local-1",
        busy_until=after(freed),
        paused_until=after(freed),
    )

    words = {cause.word for cause in lateness(seen, after(10_000)).causes}

    assert words == ({Why.CATCH_UP, Why.FOLDER_BUSY, Why.PAUSED} if told else {Why.CATCH_UP})
