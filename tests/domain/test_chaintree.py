"""A tree of runs stays within what it may use."""

from pidispatch.domain.runs.chaintree import Harvest, TreeCaps, TreeUse, within_tree
from pidispatch.domain.runs.outbox import Child, RequestRefusal

OVERSIZE = RequestRefusal("0", "chain-oversize")


def children(*numbers):
    return tuple(Child(str(number), f"chain-{number}", "flow", b"", b"{}") for number in numbers)


def words(answers):
    return [answer.word if isinstance(answer, RequestRefusal) else answer.public_id for answer in answers]


def test_without_bounds_everybody_has_room():
    assert within_tree(children(1, 2), TreeUse(99, 10**9), TreeCaps()) == children(1, 2)
    assert not TreeCaps(each=5).bind


def test_a_cap_may_be_reached_and_not_passed():
    used = TreeUse(runs=1, micros=100)

    assert words(within_tree(children(1, 2, 3), used, TreeCaps(runs=3))) == [
        "chain-1",
        "chain-2",
        "chain-tree-cap",
    ]
    assert words(within_tree(children(1, 2), used, TreeCaps(micros=150, each=50))) == [
        "chain-1",
        "chain-spend-cap",
    ]
    assert words(within_tree(children(1), used, TreeCaps(micros=149, each=50))) == ["chain-spend-cap"]


def test_a_run_that_may_spend_anything_fits_under_no_cap_of_dollars():
    assert within_tree(children(1), TreeUse(1, 0), TreeCaps(micros=10**9)) == (
        RequestRefusal("1", "chain-spend-cap", "no-run-cap"),
    )


def test_the_same_request_twice_takes_room_once():
    twice = (*children(1), *children(1), *children(2))

    assert words(within_tree(twice, TreeUse(1, 0), TreeCaps(runs=3))) == ["chain-1", "chain-1", "chain-2"]


def test_a_refusal_takes_no_room_and_keeps_its_place():
    answers = (OVERSIZE, *children(1))

    assert within_tree(answers, TreeUse(1, 0), TreeCaps(runs=2)) == answers
    assert Harvest(answers).children == children(1)
