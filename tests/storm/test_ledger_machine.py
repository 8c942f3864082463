"""Any order of admissions, spending, endings, retries and passing days: the ledger is what a slow model says."""

from collections import defaultdict
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text

from pidispatch.domain import words
from pidispatch.domain.limits import EVERYTHING
from pidispatch.domain.outcome import Again, End
from pidispatch.domain.policy import Policy, ScopeCaps, Subject
from pidispatch.domain.run import BoxEnd, Claim, Outcome
from pidispatch.errors import StaleEpoch
from pidispatch.ports import Admitted, CallEnd, CallOpened, CallRefused, Deferred, NoRoom, Refused
from pidispatch.store.admission import PostgresAdmissions
from pidispatch.store.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.endings import PostgresEndings
from pidispatch.store.runs import PostgresRuns
from tests.store.builders import HOST, WORKER, a_host, a_run, assert_ledger_is_exact, ready_for, value
from tests.support.calls import cost as priced
from tests.support.calls import worst
from tests.support.scale import scaled

SCOPES = ("folder:/s/a", "folder:/s/b")
CAPACITY, CONCURRENT, RESERVE, HOLD = 3, 2, 100, 30
CAPS = {  # (scope, unit, period): cap; the order is the order in which they speak
    **{(scope, "runs", "day"): 3 for scope in SCOPES},
    **{(scope, "runs", "week"): 5 for scope in SCOPES},
    (EVERYTHING, "runs", "day"): 5,
    (EVERYTHING, "runs", "week"): 8,
    (EVERYTHING, "micros", "day"): 450,
}
POLICY = Policy(
    provider="scripted",
    model="happy",
    image="i",
    max_turns=1,
    max_tokens=None,
    concurrency=CAPACITY,
    daily_cap=5,
    weekly_cap=8,
    daily_micros=450,
    max_cost_micros=RESERVE,
    by_scope=dict.fromkeys(SCOPES, ScopeCaps(day=3, week=5, concurrent=CONCURRENT)),
)

COSTS = st.one_of(st.none(), st.integers(0, 40))  # of one call; None is a price that is not known


@dataclass
class ModelRun:
    """One run, and what it counts in each window: (scope, unit, period, which day or week) to amount."""

    scope: str
    folder: str
    occupies: bool = False
    ended: bool = False
    went: bool = False  # in this attempt
    goes: int = 0
    spent: int = 0
    claim: Claim | None = None
    container: str = ""
    counted: dict = field(default_factory=dict)


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self, database):
        super().__init__()
        with database.transaction() as connection:
            connection.execute(text("TRUNCATE runs, scopes, spend_windows, hosts CASCADE"))
            connection.execute(text("INSERT INTO scopes (key) VALUES ('*')"))
        self.database = database
        a_host(database, capacity=CAPACITY)
        self.admissions = PostgresAdmissions(database, host=HOST, worker=WORKER)
        self.runs, self.endings = PostgresRuns(database), PostgresEndings(database)
        self.tickets, self.calls = PostgresTickets(database, timeout=600), PostgresCallLedger(database)
        self.model: dict[int, ModelRun] = {}
        self.now = {"day": 0, "week": 0}
        self.shifts = 0
        self.windows: set = set()  # every window that was ever counted in

    # What the model knows

    def occupants(self, **like):
        alive = [run for run in self.model.values() if run.occupies]
        return [run for run in alive if all(getattr(run, key) == wanted for key, wanted in like.items())]

    def used(self, window):
        return sum(run.counted.get(window, 0) for run in self.model.values())

    def window(self, scope, unit, period):
        return (scope, unit, period, self.now[period])

    def expected_answer(self, run):
        if len(self.occupants(scope=run.scope)) >= CONCURRENT or self.occupants(folder=run.folder):
            return Deferred("scope")
        if len(self.occupants()) >= CAPACITY:
            return NoRoom()
        if run.counted:
            return None  # it paid for its place before
        asked = [key for key in CAPS if key[0] in {run.scope, EVERYTHING}]
        for scope, unit, period in asked:
            window = self.window(scope, unit, period)
            if self.over_cap(window, without=self.held(window)):
                word = "dollar-cap" if unit == "micros" else "over-budget"
                return Refused("scope-cap" if scope != EVERYTHING else word, f"{period}-cap")
        waits = any(self.over_cap(self.window(*key)) for key in asked)
        return Deferred(words.CAP_HELD) if waits else None

    def over_cap(self, window, *, without=0):
        amount = RESERVE if window[1] == "micros" else 1
        return self.used(window) - without + amount > CAPS[window[:3]]

    def held(self, window):
        """What may yet be given back: a place before the run's go, dollars until its end."""
        return sum(
            run.counted.get(window, 0)
            for run in self.model.values()
            if not run.ended and (window[1] == "micros" or not run.goes)
        )

    def count_in(self, run):
        if not run.counted:
            for scope, unit, period in CAPS:
                if scope in {run.scope, EVERYTHING}:
                    run.counted[self.window(scope, unit, period)] = RESERVE if unit == "micros" else 1
            self.windows |= run.counted.keys()

    # What happens

    @rule(scope=st.sampled_from(SCOPES), folder=st.integers(1, 3))
    def submit(self, scope, folder):
        self.ask_for(scope, folder)

    def ask_for(self, scope, folder):
        path = f"{scope.removeprefix('folder:')}/{folder}"
        run_id = a_run(self.database, folder=path)
        with self.database.transaction() as connection:
            connection.execute(
                text("INSERT INTO scopes (key) VALUES (:key) ON CONFLICT DO NOTHING"), {"key": scope}
            )
            connection.execute(
                text("UPDATE runs SET scope = :key WHERE id = :id"), {"key": scope, "id": run_id}
            )
        self.model[run_id] = ModelRun(scope, path)

    @rule(times=st.integers(1, 3))
    def admit(self, times):
        for _ in range(times):
            self.admit_next()

    @rule(scope=st.sampled_from(SCOPES), folder=st.integers(1, 3), cost=COSTS, tries_again=st.booleans())
    def from_asking_to_its_end(self, scope, folder, cost, tries_again):
        self.ask_for(scope, folder)
        run = self.admit_next()
        if run is not None:
            self.box(run, go=True)
            self.spend(run, cost)
            self.leave_box(run, tries_again=tries_again)

    def admit_next(self):
        waiting = self.admissions.next_due([])
        if waiting is None:
            return None
        run = self.model[waiting.run_id]
        assert not run.occupies
        assert not run.ended
        subject = Subject(scope=run.scope, name=run.folder, resolved=run.folder)
        ready = ready_for(
            self.database,
            waiting.run_id,
            POLICY.caps_for(subject),
            concurrent=POLICY.concurrent_for(subject),
            cost_cap_micros=RESERVE,
        )
        expected = self.expected_answer(run)

        answer = self.admissions.admit(waiting, ready)

        if isinstance(answer, Admitted):
            assert expected is None
            run.occupies, run.claim, run.went = True, answer.claim, False
            self.count_in(run)
            return run
        if isinstance(answer, Deferred):
            answer = replace(answer, until=None)
        assert answer == expected
        run.ended = isinstance(answer, Refused)
        event(f"not admitted: {answer}")
        return None

    @precondition(lambda self: self.occupants(container="", went=False))
    @rule(data=st.data())
    def box_and_go(self, data):
        self.box(
            data.draw(st.sampled_from(self.occupants(container="", went=False))), go=data.draw(st.booleans())
        )

    def box(self, run, *, go):
        job = self.runs.preparing(run.claim)
        run.container = f"{run.claim.run_id:08x}{run.claim.attempt:08x}" * 4
        run.claim = self.runs.boxed(job.claim, container_id=run.container, name=run.container)
        if go:
            assert self.tickets.give_go(run.claim.run_id, run.claim.attempt, run.container[:12])
            assert not self.tickets.give_go(run.claim.run_id, run.claim.attempt, run.container[:12])
            run.went, run.goes = True, run.goes + 1

    @precondition(lambda self: self.occupants(went=True))
    @rule(data=st.data(), cost=COSTS)
    def call(self, data, cost):
        self.spend(data.draw(st.sampled_from(self.occupants(went=True))), cost)

    def spend(self, run, cost):
        """A call that may come to HOLD, and sometimes comes to more; an unknown price counts what was held."""
        answer = self.calls.open_call(
            run.claim.run_id, run.claim.attempt, provider="p", model="m", api="x", worst=worst(HOLD)
        )
        if run.spent + HOLD > RESERVE:
            assert answer == CallRefused("cost-cap")
            return
        assert isinstance(answer, CallOpened)
        self.calls.settle_call(answer.call_id, CallEnd(200, "stop", tokens_in=1), priced(cost))
        run.spent += HOLD if cost is None else cost

    @precondition(lambda self: self.occupants())
    @rule(data=st.data(), tries_again=st.booleans())
    def over(self, data, tries_again):
        self.leave_box(data.draw(st.sampled_from(self.occupants())), tries_again=tries_again)

    def leave_box(self, run, *, tries_again):
        claim = self.finishing(run)
        if tries_again:
            assert self.endings.again(claim, Again("never-started", 0), BoxEnd())
        else:
            assert self.endings.end(claim, End(Outcome.FAILED, "killed"), BoxEnd())
        self.leave(run, ends=not tries_again)
        with pytest.raises(StaleEpoch):
            self.endings.end(claim, End(Outcome.FAILED, "killed"), BoxEnd())

    def finishing(self, run):
        epoch = value(self.database, "SELECT epoch FROM runs WHERE id = :id", id=run.claim.run_id)
        return self.runs.finishing(
            Claim(run.claim.run_id, run.claim.public_id, run.claim.attempt, int(str(epoch)))
        )

    def leave(self, run, *, ends):
        run.occupies, run.container, run.ended = False, "", ends
        if run.goes == 0:
            run.counted = {}
        elif ends:
            run.counted = {key: run.spent if key[1] == "micros" else 1 for key in run.counted}

    @precondition(lambda self: self.shifts < 10)
    @rule(whole_week=st.booleans())
    def time_passes(self, whole_week):
        """Tomorrow, or next week: today's windows become older ones. Doubling steps never meet one another."""
        periods = ["day", "week"] if whole_week else ["day"]
        for period in periods:
            self.now[period] += 1
        with self.database.transaction() as connection:
            connection.execute(
                text("UPDATE spend_windows SET starts_on = starts_on - :days WHERE period = ANY(:periods)"),
                {"days": 7 << self.shifts, "periods": periods},
            )
        self.shifts += 1

    # What always holds

    @invariant()
    def the_windows_are_what_the_model_says(self):
        expected = defaultdict(list)
        for window in sorted(self.windows, key=lambda window: window[3]):
            expected[window[:3]].append(self.used(window))
        with self.database.transaction() as connection:
            rows = connection.execute(
                text("SELECT scope, unit, period, used FROM spend_windows ORDER BY starts_on")
            ).all()
        found = defaultdict(list)
        for scope, unit, period, used in rows:
            found[scope, unit, period].append(used)
        assert found == expected

    @invariant()
    def nothing_is_past_a_cap_or_a_slot(self):
        assert_ledger_is_exact(self.database)
        for (scope, unit, period), cap in CAPS.items():
            if unit == "runs":
                assert self.used(self.window(scope, unit, period)) <= cap
        assert len(self.occupants()) <= CAPACITY


def test_the_ledger_is_what_a_slow_model_says_after_every_step(database):
    run_state_machine_as_test(
        lambda: LedgerMachine(database),
        settings=settings(
            max_examples=scaled(25, nightly=500),
            stateful_step_count=30,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
