"""Children are queued with the end of the run that asked for them, or not at all."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event, text

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.runs.chaintree import ChainAnswer, Harvest, TreeCaps
from pidispatch.domain.runs.names import chained_run_id
from pidispatch.domain.runs.outbox import Child, RequestRefusal
from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Outcome, Result
from pidispatch.errors import StaleEpoch
from pidispatch.ports import CallEnd
from pidispatch.store.read.detail import run_detail
from pidispatch.store.runs import requeueing
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.chains import Chains
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.store.builders import (
    HOST,
    a_host,
    a_run,
    assert_ledger_is_exact,
    row,
    some_caps,
    try_next,
    value,
)
from tests.support.calls import cost as priced
from tests.support.calls import opened, worst

DONE = End(Outcome.COMPLETED, "completed", result=Result.DONE_UNVERIFIED)
BOX = BoxEnd(exit_code=0)
TREE = (
    "SELECT public_id, kind, target, scope, mutex, pinned_host, trigger_type, flow, provider, model, image, max_turns,"
    " max_tokens, priority, state, attempt, chain_depth, parent_id, root_id FROM runs WHERE public_id = :id"
)


def working(database, commit="a" * 40, **more):
    """The next due run, in its box, with its go; more than one may be working."""
    found = try_next(database, some_caps(1000), **more)
    assert found is not None
    run_id, answer = found
    assert isinstance(answer, Admitted), answer
    runs, container = Runs(database), f"{run_id:064x}"
    claim = runs.preparing(answer.claim).claim
    runs.boxed(claim, container_id=container, name=f"box-{run_id}", commit_before=commit)
    assert PostgresTickets(database, timeout=600).give_go(run_id, claim.attempt, container)
    return Runs(database).facts(run_id).claim


def a_working_run(database, commit="a" * 40, **asked):
    a_host(database, capacity=10)
    a_run(database, **asked)
    return working(database, commit)


def child_of(claim, number="1", flow="review", task=b"look"):
    return Child(number, chained_run_id(claim.public_id, flow, task), flow, task, b'{"source": "chain"}')


def end(database, claim, *answers, caps=TreeCaps(), verdict=DONE):  # noqa: B008 - frozen
    claim = Runs(database).finishing(claim)
    return Endings(database).end(claim, verdict, BOX, harvest=Harvest(answers, caps))


def run_of(database, public_id):
    return value(database, "SELECT id FROM runs WHERE public_id = :id", id=public_id)


def chained(database):
    return value(database, "SELECT count(*) FROM runs WHERE trigger_type = 'chain'")


def told(database, claim):
    return [answer.run or answer.refused for answer in Chains(database).answers(claim.run_id)]


def test_a_child_is_queued_with_what_it_inherits_and_nothing_else(database):
    claim = a_working_run(database, folder="/repos/web", priority=7)
    child = child_of(claim)

    assert end(database, claim, child, RequestRefusal("2", "chain-oversize"))

    made = row(database, TREE, id=child.public_id)
    parent = row(database, TREE, id=claim.public_id)
    same = ("kind", "target", "scope", "mutex", "pinned_host", "image", "priority")
    assert [made[name] for name in same] == [parent[name] for name in same]
    assert (made["trigger_type"], made["flow"], made["state"], made["attempt"]) == (
        "chain",
        "review",
        "queued",
        0,
    )
    assert [made[name] for name in ("provider", "model")] == [None] * 2
    assert [made[name] for name in ("max_turns", "max_tokens")] == [parent["max_turns"], parent["max_tokens"]]
    assert (made["parent_id"], made["root_id"], made["chain_depth"]) == (claim.run_id, claim.run_id, 1)
    payload = row(
        database,
        "SELECT folder, folder_given, task, task_bytes, event, expires_at FROM run_payloads p JOIN runs r ON r.id = p.run_id"
        " WHERE r.public_id = :id",
        id=child.public_id,
    )
    assert payload == {
        "folder": b"/repos/web",
        "folder_given": b"/repos/web",
        "task": b"look",
        "task_bytes": 4,
        "event": b'{"source": "chain"}',
        "expires_at": None,
    }
    assert row(database, "SELECT parent, chain_depth, chain_refused FROM run_history") == {
        "parent": None,
        "chain_depth": 0,
        "chain_refused": 1,
    }


def test_a_child_keeps_within_what_bounded_its_parent(database):
    bounds = {"cost_cap_micros": 9, "allowed_models": ("a/b",), "excluded_tools": ("bash",)}
    claim = a_working_run(database, skills_dir=b"/srv/skills", **bounds)
    child = child_of(claim)

    assert end(database, claim, child)

    made = row(
        database,
        "SELECT r.cost_cap_micros, r.cost_cap_asked, r.allowed_models, r.excluded_tools, p.skills_dir"
        " FROM runs r JOIN run_payloads p ON p.run_id = r.id WHERE r.public_id = :id",
        id=child.public_id,
    )
    assert made == {
        "cost_cap_micros": 9,
        "cost_cap_asked": 9,
        "allowed_models": ["a/b"],
        "excluded_tools": ["bash"],
        "skills_dir": b"/srv/skills",
    }
    assert Chains(database).parent(claim.run_id).cost_cap_micros == 9


def test_a_grandchild_knows_its_first_run_and_its_depth(database):
    first = a_working_run(database)
    end(database, first, child_of(first))
    second = working(database)
    end(database, second, child_of(second))

    made = row(database, TREE, id=child_of(second).public_id)

    assert (made["parent_id"], made["root_id"], made["chain_depth"]) == (second.run_id, first.run_id, 2)
    detail = run_detail(database, run_of(database, child_of(second).public_id)).chain
    assert (detail.depth, detail.parent, detail.root) == (2, second.public_id, first.public_id)


def test_a_child_passes_the_gates_like_any_run(database):
    claim = a_working_run(database)
    end(database, claim, child_of(claim))

    run_id, answer = try_next(database, some_caps(daily=1))

    assert run_id == run_of(database, child_of(claim).public_id)
    assert answer.reason == "over-budget"
    assert_ledger_is_exact(database)


def test_the_answers_are_kept_in_order_and_counted(database):
    claim = a_working_run(database)

    end(database, claim, RequestRefusal("1", "chain-gate-deny", "no-skill"), child_of(claim, "2"))

    chain = run_detail(database, claim.run_id).chain
    assert chain.refused == 1
    assert chain.answers == (
        ChainAnswer("1", None, "chain-gate-deny", "no-skill"),
        ChainAnswer("2", child_of(claim).public_id, None, None),
    )


def test_an_outbox_that_held_nothing_counts_none_and_one_never_judged_says_so(database):
    judged, other = a_working_run(database), a_working_run(database)

    end(database, judged)
    Endings(database).end(Runs(database).finishing(other), DONE, BOX)

    assert run_detail(database, judged.run_id).chain.refused == 0
    assert run_detail(database, other.run_id).chain.refused is None
    assert told(database, judged) == []


def test_ten_thousand_refusals_are_counted_and_a_hundred_kept(database):
    claim = a_working_run(database)

    end(database, claim, *(RequestRefusal(str(n), "chain-count-cap") for n in range(10_000)))

    chain = run_detail(database, claim.run_id).chain
    assert (chain.refused, len(chain.answers)) == (10_000, 100)


def test_the_same_request_twice_is_one_run(database):
    claim = a_working_run(database)

    assert end(database, claim, child_of(claim, "1"), child_of(claim, "2"))

    assert chained(database) == 1
    assert told(database, claim) == [child_of(claim).public_id] * 2


# What may happen between the collection and the end: each time it is all or nothing, and asking again is safe.


def test_a_crash_before_the_commit_leaves_neither_the_end_nor_a_child(database):
    claim = Runs(database).finishing(a_working_run(database))
    harvest = Harvest((child_of(claim), child_of(claim, "2", task=b"other")))

    def crash(connection):
        raise ConnectionAbortedError("killed at the commit")

    event.listen(database._engine, "commit", crash)
    with pytest.raises(ConnectionAbortedError):
        Endings(database).end(claim, DONE, BOX, harvest=harvest)
    event.remove(database._engine, "commit", crash)

    assert value(database, "SELECT state FROM runs WHERE id = :id", id=claim.run_id) == "finishing"
    assert chained(database) == 0
    assert Endings(database).end(Runs(database).finishing(claim), DONE, BOX, harvest=harvest)
    assert chained(database) == 2


def test_a_crash_after_the_commit_makes_no_second_child(database):
    claim = a_working_run(database)
    end(database, claim, child_of(claim))

    with pytest.raises(StaleEpoch):
        end(database, claim, child_of(claim))

    assert chained(database) == 1


def test_an_open_call_keeps_back_the_end_and_the_child(database):
    claim = a_working_run(database)
    ledger = PostgresCallLedger(database)
    call = opened(ledger, claim.run_id, 1, provider="scripted", model="happy", api="openai-completions")

    assert not end(database, claim, child_of(claim))
    assert chained(database) == 0

    ledger.settle_call(call, CallEnd(200, "stop"))
    assert end(database, Runs(database).facts(claim.run_id).claim, child_of(claim))
    assert chained(database) == 1


def test_a_cancel_that_comes_between_leaves_no_child(database):
    claim = Runs(database).finishing(a_working_run(database))
    Runs(database).request_stop(claim.run_id, reason="operator-cancel")

    with pytest.raises(StaleEpoch):
        Endings(database).end(claim, DONE, BOX, harvest=Harvest((child_of(claim),)))

    assert chained(database) == 0


def test_two_finishers_at_once_make_one_child(database):
    claim = Runs(database).finishing(a_working_run(database))
    harvest = Harvest((child_of(claim),))

    def finish(_):
        try:
            return Endings(database).end(claim, DONE, BOX, harvest=harvest)
        except StaleEpoch:
            return False

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(finish, range(4)))

    assert sorted(ended) == [False, False, False, True]
    assert chained(database) == 1


# The bounds of a tree.


def test_the_runs_of_a_tree_are_counted_over_all_its_generations(database):
    caps = TreeCaps(runs=3)
    first = a_working_run(database)
    end(database, first, child_of(first), caps=caps)
    second = working(database)
    end(database, second, child_of(second, "1"), child_of(second, "2", task=b"more"), caps=caps)

    assert told(database, second) == [child_of(second).public_id, "chain-tree-cap"]
    assert run_detail(database, second.run_id).chain.refused == 1


def test_a_run_that_never_got_its_go_uses_no_place_in_its_tree(database):
    first = a_working_run(database)
    other = child_of(first, "2", task=b"other")
    end(database, first, child_of(first), other)
    assert try_next(database, some_caps(daily=0)) is not None  # one of the two ends over budget
    second = working(database)

    end(database, second, child_of(second), caps=TreeCaps(runs=3))

    assert told(database, second) == [child_of(second).public_id]


@pytest.mark.parametrize(("cap", "fits"), [(200, True), (199, False)])
def test_a_run_whose_cost_is_unknown_counts_with_its_cap(database, cap, fits):
    a_host(database)
    a_run(database)
    claim = working(database, cost_cap_micros=100)
    a_call(database, claim, cost=None)

    end(database, claim, child_of(claim), caps=TreeCaps(micros=cap, each=100))

    assert bool(chained(database)) is fits
    assert told(database, claim) == [child_of(claim).public_id if fits else "chain-spend-cap"]


def test_a_run_whose_cost_is_known_counts_with_that_and_a_waiting_one_with_all_it_may_spend(database):
    a_host(database)
    a_run(database)
    claim = working(database, cost_cap_micros=100)
    a_call(database, claim, cost=30)
    answers = [child_of(claim, str(n), task=b"%d" % n) for n in range(3)]

    end(database, claim, *answers, caps=TreeCaps(micros=230, each=100))
    assert told(database, claim) == [answers[0].public_id, answers[1].public_id, "chain-spend-cap"]

    second = working(database, cost_cap_micros=100)
    end(database, second, child_of(second), caps=TreeCaps(micros=229, each=100))
    assert told(database, second) == ["chain-spend-cap"]


def a_call(database, claim, *, cost):
    ledger = PostgresCallLedger(database)
    call = opened(ledger, claim.run_id, 1, worst=worst(100))
    ledger.settle_call(call, CallEnd(200, "stop", tokens_in=5), priced(cost))


def test_two_runs_of_one_tree_that_end_at_once_do_not_take_the_same_room(database):
    first = a_working_run(database)
    twins = [child_of(first, str(n), task=b"%d" % n) for n in range(2)]
    end(database, first, *twins)
    with (
        database.transaction() as connection
    ):  # two of one folder never work at once: give one another folder
        connection.execute(text("INSERT INTO scopes (key) VALUES ('inode:other')"))
        connection.execute(
            text("UPDATE runs SET mutex = 'inode:other' WHERE public_id = :id"), {"id": twins[1].public_id}
        )
    claims = [working(database), working(database)]
    caps = TreeCaps(runs=4)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda claim: end(database, claim, child_of(claim), caps=caps), claims))

    words = [told(database, claim)[0] for claim in claims]
    assert sorted(word == "chain-tree-cap" for word in words) == [False, True]
    assert_ledger_is_exact(database)


# What the judgement needs to know.


def test_the_parent_hands_down_the_commit_before_its_first_agent(database):
    claim = a_working_run(database, commit="a" * 40)
    first = Chains(database).parent(claim.run_id)

    assert (first.kind, first.public_id, first.depth) == ("local", claim.public_id, 0)
    assert (first.commit, first.image) == ("a" * 40, "pi-job:test")
    with database.transaction() as connection:
        connection.execute(
            text(
                "INSERT INTO run_attempts (run_id, attempt, host, go_at, commit_before)"
                " VALUES (:run, 2, :host, now(), :commit)"
            ),
            {"run": claim.run_id, "host": HOST, "commit": "b" * 40},
        )
    assert Chains(database).parent(claim.run_id).commit == "a" * 40


def test_a_repeat_keeps_its_place_in_the_chain(database):
    claim = a_working_run(database)
    end(database, claim, child_of(claim))
    second = working(database)
    end(database, second)

    made = requeueing.requeue(database, second.run_id, actor="ada@h1")

    copy = row(database, TREE, id=made.public_id)
    assert (copy["parent_id"], copy["root_id"], copy["chain_depth"]) == (claim.run_id, claim.run_id, 1)
