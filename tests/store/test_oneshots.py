"""A one-shot fires once: spent with its run's admission, given back with a run that never started, armed by people."""

import pytest
from sqlalchemy import text

from pidispatch.domain.limits.admission import Admitted, NoRoom, Refused
from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.errors import CannotRearm
from pidispatch.store.admission import transaction as admission
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.runs import cancelling, oneshots
from pidispatch.store.runs.calls import PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.oneshots import OneShots
from pidispatch.store.runs.transitions import Runs
from pidispatch.store.triggers.arrivals import Arrivals
from tests.store.arriving import ISSUE, an_arrival
from tests.store.builders import (
    HOST,
    WORKER,
    a_host,
    a_run,
    assert_ledger_is_exact,
    ready_for,
    row,
    some_caps,
    try_next,
    value,
)

KEY = "fix-on-close"
CONTAINER = "c0ffee" * 10
DONE = End(Outcome.COMPLETED, "completed")
PLACE = "h1:0123456789abcdef"


@pytest.fixture
def one_shots(database):
    a_host(database, capacity=10)
    return OneShots(database)


def a_one_shot_run(database, key=KEY, lane="fix"):
    """A run of its own subject, so that nothing but the one-shot stands between two of them."""
    number = value(database, "SELECT count(*) FROM runs")
    subject = type(ISSUE)(ISSUE.scope, f"#{number + 1}", lane)
    return Arrivals(database).arrive(an_arrival(subject=subject, one_shot=key)).run_id


def spent_by(database):
    with database.transaction() as connection:
        return [tuple(each) for each in connection.execute(text("SELECT key, run_id FROM one_shots"))]


def ended(database, run_id):
    return row(database, "SELECT state, outcome, reason, why FROM runs WHERE id = :id", id=run_id)


REFUSED = {"state": "ended", "outcome": "policy", "reason": "once-already-spent", "why": "by-another-run"}


def goes(database):
    runs = Runs(database)
    claim = runs.preparing(try_next(database)[1].claim).claim
    container = f"{claim.run_id:012x}{CONTAINER[:52]}"
    runs.boxed(claim, container_id=container, name=f"box-{claim.run_id}")
    assert PostgresTickets(database, timeout=60).give_go(claim.run_id, claim.attempt, container[:12])
    return runs.finishing(runs.facts(claim.run_id).claim)


def done(database):
    """The next run gets its go, and ends."""
    claim = goes(database)
    assert Endings(database).end(claim, DONE, BoxEnd(exit_code=0))
    return claim


def test_the_admission_spends_it_and_says_of_what(database, one_shots):
    run_id = a_one_shot_run(database)
    assert spent_by(database) == []

    assert isinstance(try_next(database)[1], Admitted)

    assert row(database, "SELECT * FROM one_shots") == {
        "key": KEY,
        "trigger_type": "label",
        "trigger_index": 3,
        "repo": "acme/web",
        "number": 1,
        "run_id": run_id,
        "spent_at": value(database, "SELECT spent_at FROM one_shots"),
        "marked_at": None,
        "marked_in": None,
    }


def test_a_run_that_finds_it_spent_is_refused_and_holds_nothing(database, one_shots):
    first, second = a_one_shot_run(database), a_one_shot_run(database)
    admissions = Admissions(database, host=HOST, worker=WORKER)
    one, two = admissions.next_due([]), admissions.next_due([first])
    assert isinstance(admissions.admit(one, ready_for(database, first)), Admitted)

    answer = admissions.admit(two, ready_for(database, second, mutex="inode:h1:other"))

    assert answer == Refused("once-already-spent", "by-another-run")
    assert ended(database, second) == REFUSED
    assert spent_by(database) == [(KEY, first)]
    facts = value(database, "SELECT admission FROM runs WHERE id = :id", id=second)
    first_name = value(database, "SELECT public_id FROM runs WHERE id = :id", id=first)
    assert facts["gates"]["one-shot"]["spent_by"] == first_name
    assert value(database, "SELECT used FROM spend_windows") == 1
    assert_ledger_is_exact(database)


def test_a_look_tells_who_had_spent_it(database, one_shots):
    first, second = a_one_shot_run(database), a_one_shot_run(database)
    try_next(database)
    end_slot(database)

    seen = Admissions(database, host=HOST, worker=WORKER).next_due([])

    assert (seen.run_id, seen.one_shot) == (second, KEY)
    assert seen.spent_by == value(database, "SELECT public_id FROM runs WHERE id = :id", id=first)


def end_slot(database):
    with database.transaction() as connection:
        connection.execute(text("UPDATE scopes SET occupied = 0"))


def test_a_cap_and_a_full_host_do_not_spend_it(database, one_shots):
    a_one_shot_run(database)
    assert isinstance(try_next(database, some_caps(daily=0))[1], Refused)
    assert spent_by(database) == []

    run_id = a_one_shot_run(database)
    assert try_next(database, capacity=0) == (run_id, NoRoom())
    assert spent_by(database) == []
    assert isinstance(try_next(database)[1], Admitted)
    assert spent_by(database) == [(KEY, run_id)]


def test_a_retry_of_the_run_that_spent_it_is_excused(database, one_shots):
    run_id = a_one_shot_run(database)
    assert Endings(database).again(goes(database), Again("provider-failed", 0), BoxEnd())
    assert spent_by(database) == [(KEY, run_id)]
    admissions = Admissions(database, host=HOST, worker=WORKER)
    seen = admissions.next_due([])
    assert seen.spent_by is None

    assert isinstance(admissions.admit(seen, ready_for(database, run_id)), Admitted)

    assert spent_by(database) == [(KEY, run_id)]


def finish(database, verdict):
    runs, endings = Runs(database), Endings(database)
    claim = runs.finishing(try_next(database)[1].claim)
    if isinstance(verdict, Again):
        assert endings.again(claim, verdict, BoxEnd())
    else:
        assert endings.end(claim, verdict, BoxEnd())


@pytest.mark.parametrize(
    "verdict", [Again("never-started", 0), End(Outcome.FAILED, "container-never-started", "image")]
)
def test_a_run_that_never_got_its_go_gives_it_back_with_everything_else(database, one_shots, verdict):
    a_one_shot_run(database)

    finish(database, verdict)

    assert spent_by(database) == []
    assert value(database, "SELECT used FROM spend_windows") == 0
    other = a_one_shot_run(database)
    with database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET not_before = now() + interval '1 hour' WHERE state = 'deferred'")
        )
    assert try_next(database)[0] == other
    assert spent_by(database) == [(KEY, other)]


def test_a_cancelled_run_that_never_started_gives_it_back(database, one_shots):
    run_id = a_one_shot_run(database)
    finish(database, Again("never-started", 0))
    assert isinstance(try_next(database)[1], Admitted)
    runs = Runs(database)
    cancelling.cancel(database, run_id, actor="ada@h1")

    assert Endings(database).end(
        runs.finishing(runs.facts(run_id).claim), End(Outcome.POLICY, "operator-cancel"), BoxEnd()
    )

    assert spent_by(database) == []


def test_a_run_that_got_its_go_keeps_it_spent_however_it_ends(database, one_shots):
    run_id = a_one_shot_run(database)
    assert Endings(database).end(goes(database), End(Outcome.FAILED, "infra"), BoxEnd(exit_code=1))

    assert spent_by(database) == [(KEY, run_id)]


@pytest.mark.parametrize("spent_before", [False, True])
def test_an_admission_that_dies_after_it_spent_changes_nothing(
    database, one_shots, monkeypatch, spent_before
):
    if spent_before:
        a_one_shot_run(database)
        done(database)
    run_id = a_one_shot_run(database)
    before = spent_by(database)
    real = admission._spent

    def killed(*asked):
        assert (real(*asked) is None) is not spent_before
        raise RuntimeError("killed")

    monkeypatch.setattr(admission, "_spent", killed)
    with pytest.raises(RuntimeError, match="killed"):
        try_next(database)

    assert spent_by(database) == before
    assert value(database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "queued"
    assert_ledger_is_exact(database)


def test_an_ending_that_dies_before_its_commit_keeps_it_spent(database, one_shots, monkeypatch):
    run_id = a_one_shot_run(database)
    real = oneshots.give_back

    def killed(connection, run):
        real(connection, run)
        raise RuntimeError("killed")

    monkeypatch.setattr("pidispatch.store.runs.oneshots.give_back", killed)
    with pytest.raises(RuntimeError, match="killed"):
        finish(database, Again("never-started", 0))

    assert spent_by(database) == [(KEY, run_id)]
    assert_ledger_is_exact(database)


def test_only_ended_runs_that_got_their_go_are_marked(database, one_shots):
    a_one_shot_run(database, "a")
    claim = goes(database)
    assert one_shots.to_mark() == []
    Endings(database).end(claim, DONE, BoxEnd(exit_code=0))

    (spent,) = one_shots.to_mark()

    assert spent.key == "a"
    assert spent.run == value(database, "SELECT public_id FROM runs")
    assert spent.ended_at == value(database, "SELECT ended_at FROM runs")
    assert one_shots.marked(spent, PLACE)
    assert one_shots.marked(spent, "another:place")  # another process of the host says it too
    assert one_shots.to_mark() == []
    assert one_shots.marked_in(PLACE) == [spent]
    assert one_shots.marked_in("another:place") == []


def test_a_deleted_mark_arms_it_again_and_leaves_a_trace(database, one_shots):
    first = a_one_shot_run(database)
    done(database)
    (spent,) = one_shots.to_mark()
    assert not one_shots.rearm_unmarked(spent, "file@h1")  # never marked, so nothing was deleted
    one_shots.marked(spent, PLACE)

    assert one_shots.rearm_unmarked(spent, "file@h1")
    assert not one_shots.rearm_unmarked(spent, "file@h1")
    assert not one_shots.marked(spent, PLACE)

    assert spent_by(database) == []
    archived = row(
        database, "SELECT key, run_id, rearmed_by, marked_at IS NOT NULL AS marked FROM rearmed_one_shots"
    )
    assert archived == {"key": KEY, "run_id": first, "rearmed_by": "file@h1", "marked": True}
    assert row(database, "SELECT action, subject, actor, detail FROM audit_log") == {
        "action": "rearm",
        "subject": KEY,
        "actor": "file@h1",
        "detail": {"run": spent.run, "how": "mark-deleted"},
    }
    second = a_one_shot_run(database)
    done(database)
    assert spent_by(database) == [(KEY, second)]
    one_shots.marked(one_shots.to_mark()[0], PLACE)
    assert not one_shots.rearm_unmarked(spent, "file@h1")  # seen before it was spent anew


def test_an_operator_arms_what_has_ended_and_nothing_else(database, one_shots):
    with pytest.raises(CannotRearm, match="fix-on-close is not spent"):
        one_shots.rearm(KEY, "ada@h1")
    a_one_shot_run(database)
    claim = goes(database)
    with pytest.raises(CannotRearm, match="has not ended") as refused:
        one_shots.rearm(KEY, "ada@h1")
    assert refused.value.live == claim.public_id
    Endings(database).end(claim, DONE, BoxEnd(exit_code=0))

    assert one_shots.rearm(KEY, "ada@h1") == claim.public_id

    assert spent_by(database) == []
    assert value(database, "SELECT detail ->> 'how' FROM audit_log") == "command"


def test_a_run_without_a_one_shot_spends_none(database, one_shots):
    a_run(database)
    try_next(database)

    assert spent_by(database) == []


def test_an_arrival_brings_its_one_shot_to_the_run_it_joins_unless_it_is_spent(database, one_shots):
    a_one_shot_run(database, "spent")
    done(database)
    arrivals = Arrivals(database)
    joined = arrivals.arrive(an_arrival())

    arrivals.arrive(an_arrival(one_shot="spent"))
    assert value(database, "SELECT one_shot FROM runs WHERE id = :id", id=joined.run_id) is None
    arrivals.arrive(an_arrival(one_shot=KEY))
    arrivals.arrive(an_arrival(one_shot="third"))
    assert value(database, "SELECT one_shot FROM runs WHERE id = :id", id=joined.run_id) == KEY
