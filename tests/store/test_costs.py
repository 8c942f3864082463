"""What a run came to: the class of the whole, what its windows settle at, and figures that come late."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.limits.windows import EVERYTHING, Cap, Period, Unit
from pidispatch.domain.providers.calls import CallEnd
from pidispatch.domain.providers.rates import CostClass
from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.entrypoints.cli.money import _used
from pidispatch.store.read.budget import read_budget
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import HOST, a_host, a_run, assert_ledger_is_exact, row, try_next, value
from tests.support.calls import cost, opened, worst

CONTAINER = "c0ffee" * 10
CAP = 1_000
DONE = End(Outcome.COMPLETED, "completed")
MODEL = "model:scripted/happy"
CAPS = tuple(
    Cap(scope, unit, period, cap=10_000, amount=amount)
    for scope, unit, period, amount in (
        (MODEL, Unit.MICROS, Period.DAY, CAP),
        (EVERYTHING, Unit.MICROS, Period.DAY, CAP),
        (EVERYTHING, Unit.MICROS, Period.WEEK, CAP),
        (EVERYTHING, Unit.TOKENS, Period.DAY, 0),
    )
)


class Life:
    """A run with a dollar cap, at work."""

    def __init__(self, database):
        self.database, self.ledger = database, PostgresCallLedger(database)
        a_host(database)
        a_run(database)
        self.begin()

    def begin(self):
        found = try_next(self.database, CAPS, cost_cap_micros=CAP)
        assert found is not None
        assert isinstance(found[1], Admitted), found
        runs = Runs(self.database)
        job = runs.preparing(found[1].claim)
        container = f"{job.claim.attempt:04x}{CONTAINER}"
        claim = runs.boxed(job.claim, container_id=container, name=f"box-{job.claim.attempt}")
        assert PostgresTickets(self.database, timeout=60).give_go(claim.run_id, claim.attempt, container)
        self.run_id, self.attempt = claim.run_id, claim.attempt

    def open(self, micros, tokens=0, **call):
        return opened(self.ledger, self.run_id, self.attempt, worst=worst(micros, tokens), **call)

    def spend(self, held, priced, *, tokens=1, measured=True, **call):
        end = CallEnd(200, "stop", tokens_in=tokens, measured=measured)
        self.ledger.settle_call(self.open(held, **call), end, priced)

    def assume(self):
        return self.ledger.assume_open(HOST, self.database.now() + timedelta(days=1))

    def claim(self):
        runs = Runs(self.database)
        return runs.finishing(runs.facts(self.run_id).claim)

    def end(self):
        assert Endings(self.database).end(self.claim(), DONE, BoxEnd(0))

    def again(self):
        assert Endings(self.database).again(self.claim(), Again("provider-failed", 0), BoxEnd(1))

    def cost(self):
        return tuple(
            row(
                self.database, "SELECT cost_micros, cost_class FROM runs WHERE id = :id", id=self.run_id
            ).values()
        )

    def windows(self):
        with self.database.transaction() as connection:
            rows = connection.execute(text("SELECT scope, unit, period, used FROM spend_windows"))
            return {(scope, unit, period): used for scope, unit, period, used in rows}

    def dollars(self):
        return {used for (_, unit, _), used in self.windows().items() if unit == "micros"}


@pytest.fixture
def life(database):
    life = Life(database)
    yield life
    assert_ledger_is_exact(database)


METERED, ASSUMED, ESTIMATE, PLAN = CostClass.METERED, CostClass.ASSUMED, CostClass.ESTIMATE, CostClass.PLAN


@pytest.mark.parametrize(
    ("calls", "assumed", "expected"),
    [
        ([], False, (0, "metered")),
        ([cost(10), cost(20)], False, (30, "metered")),
        ([cost(0, PLAN), cost(0, PLAN)], False, (0, "plan")),
        ([cost(0, PLAN), cost(20)], False, (20, "metered")),
        ([cost(10), cost(20, ESTIMATE)], False, (30, "estimate")),
        ([None, None], False, (None, "unrated")),
        ([None, cost(20)], False, (20, "floor")),
        ([cost(10), cost(20, ESTIMATE)], True, (80, "estimate")),
        ([cost(10), cost(20, ASSUMED)], False, (30, "assumed")),
        ([cost(0, PLAN), cost(20, ASSUMED)], False, (20, "assumed")),
        ([None], True, (50, "floor")),
        ([], True, (50, "assumed")),
    ],
)
def test_the_worst_of_the_calls_speaks_for_all(life, calls, assumed, expected):
    for priced in calls:
        life.spend(30, priced, measured=priced is None or priced.cost_class not in {ASSUMED, ESTIMATE})
    if assumed:
        life.open(50)
        assert life.assume() == 1

    life.end()

    assert life.cost() == expected
    if calls or assumed:
        assert tuple(row(life.database, "SELECT cost_micros, cost_class FROM run_usage").values()) == expected


def test_a_run_that_never_got_its_go_cost_exactly_nothing(database):
    a_host(database)
    run_id = a_run(database)
    try_next(database)
    runs = Runs(database)

    assert Endings(database).end(runs.finishing(runs.facts(run_id).claim), DONE, BoxEnd())

    assert row(database, "SELECT cost_micros, cost_class FROM runs") == {
        "cost_micros": 0,
        "cost_class": "metered",
    }


def test_each_model_has_its_own_cost_class_and_prices(life):
    life.spend(30, cost(10))
    life.spend(30, cost(5, ESTIMATE), measured=False, model="other")
    life.end()

    with life.database.transaction() as connection:
        rows = connection.execute(
            text("SELECT model, cost_micros, cost_class, price_version FROM run_usage ORDER BY model")
        ).all()
    assert [tuple(each) for each in rows] == [
        ("happy", 10, "metered", "test-1"),
        ("other", 5, "estimate", "test-1"),
    ]


def test_windows_settle_at_what_the_calls_cost_and_those_of_a_model_at_its_own(life):
    life.spend(30, cost(10), tokens=7)
    life.spend(30, cost(5), model="other")
    life.open(100, 900)
    life.assume()

    life.end()

    assert life.windows() == {
        (MODEL, "micros", "day"): 110,
        (EVERYTHING, "micros", "day"): 115,
        (EVERYTHING, "micros", "week"): 115,
        (EVERYTHING, "tokens", "day"): 908,
    }


def test_the_budget_says_what_of_a_window_nobody_measured(life):
    life.spend(30, cost(10), tokens=7)
    life.spend(50, cost(40, ASSUMED), tokens=500, measured=False, model="other")
    life.open(100, 900)
    life.assume()
    life.end()

    found = read_budget(life.database, CAPS, {}).windows

    assert [(window.scope, window.unit, window.used, window.assumed) for window in found] == [
        (MODEL, "micros", 110, 100),
        (EVERYTHING, "micros", 150, 140),
        (EVERYTHING, "micros", 150, 140),
        (EVERYTHING, "tokens", 1_407, 1_400),
    ]
    assert [_used(window) for window in found] == [
        "at most $0.00011", "at most $0.00015", "at most $0.00015", "at most 1,407",
    ]  # fmt: skip


def test_an_estimate_is_never_more_than_the_hold_and_a_measure_may_be(life):
    life.spend(30, cost(500, ESTIMATE), measured=False)
    life.spend(30, cost(50))
    life.end()

    assert (life.cost(), life.dollars()) == ((80, "estimate"), {80})


def test_a_hold_is_kept_whole_only_while_a_cost_is_not_known_at_all(life):
    life.spend(30, cost(10))
    with life.database.transaction() as connection:  # as a gateway of an earlier version opened it
        connection.execute(
            text(
                "INSERT INTO provider_calls (run_id, attempt, host, provider, model, api) VALUES (:run, 1, 'h1', 'a', 'b', 'c')"
            ),
            {"run": life.run_id},
        )
    life.assume()
    life.end()

    assert (life.cost(), life.dollars()) == ((10, "floor"), {CAP})


def test_caps_are_the_runs_and_not_an_attempts(life):
    life.spend(900, cost(900))
    life.again()
    life.begin()

    assert life.attempt == 2
    answer = life.ledger.open_call(life.run_id, 2, provider="p", model="m", api="a", worst=worst(101))
    assert answer.reason == "cost-cap"
    life.spend(100, cost(60))
    life.end()
    assert (life.cost(), life.dollars()) == ((960, "metered"), {960})


# Late figures


def late(life, call_id, micros, tokens=5, **end):
    life.ledger.settle_call(call_id, CallEnd(200, "stop", tokens_in=tokens, **end), cost(micros))


@pytest.mark.parametrize(("micros", "used"), [(20, 30), (400, 410)], ids=["less", "more"])
def test_a_late_figure_puts_the_windows_of_the_day_of_admission_right_once(life, micros, used):
    life.spend(30, cost(10))
    call_id = life.open(100, 900)
    life.assume()
    life.end()
    assert life.dollars() == {110}
    with life.database.transaction() as connection:  # the next day
        connection.execute(text("UPDATE spend_windows SET starts_on = starts_on - 7"))

    for _ in range(3):
        late(life, call_id, micros)

    assert life.dollars() == {used}
    assert life.windows()[EVERYTHING, "tokens", "day"] == 6
    assert life.cost() == (110, "assumed")  # the record stays
    with life.database.transaction() as connection:
        rows = connection.execute(
            text(
                "SELECT tokens_before, tokens_after, micros_before, micros_after, in_windows FROM spend_adjustments"
            )
        ).all()
    assert [tuple(each) for each in rows] == [(0, 5, 100, micros, True)]


def test_a_late_figure_before_the_end_is_what_the_run_settles_at(life):
    call_id = life.open(100)
    life.assume()
    life.again()
    assert life.cost() == (100, "assumed")

    late(life, call_id, 20)

    assert life.cost() == (20, "metered")
    assert life.dollars() == {CAP}
    life.begin()
    life.end()
    assert (life.cost(), life.dollars()) == ((20, "metered"), {20})
    assert value(life.database, "SELECT in_windows FROM spend_adjustments") is False


def test_an_adjustment_is_not_changed_afterwards(life):
    call_id = life.open(100)
    life.assume()
    late(life, call_id, 20)

    with (
        pytest.raises(Exception, match="spend_adjustments only grows"),
        life.database.transaction() as connection,
    ):
        connection.execute(text("UPDATE spend_adjustments SET micros_after = 0"))
