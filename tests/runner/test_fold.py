import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runner.fold import START, step
from runner.summary import notes

from tests.runner.support import fold, stream_records


@pytest.mark.parametrize(
    ("name", "expected", "total"),
    [
        ("happy", (4, "stop", None, 0), 5905),
        ("toolfail", (5, "stop", None, 0), None),
        ("length", (1, "length", None, 0), 1025),
        ("maxturns-guard", (3, "aborted", "max_turns", 0), 4190),
        ("maxtokens-guard", (3, "aborted", "max_tokens", 0), 4190),
        ("http500-exhausted", (0, "error", None, 3), 0),
        ("http429-recovered", (4, "stop", None, 2), None),
        ("http401", (0, "error", None, 0), 0),
        ("quota", (0, "error", None, 0), 0),
        ("http402", (0, "error", None, 0), 0),
    ],
)
def test_a_stream_adds_up_to_its_turns_and_tokens(name, expected, total):
    folded = fold(name)

    assert (folded.turns, folded.last_stop, folded.limit, folded.retries) == expected
    assert total is None or folded.tokens.total == total


@pytest.mark.parametrize(
    ("name", "noticed"), [("toolfail", ["tools-failed"]), ("happy", []), ("length", []), ("http401", [])]
)
def test_tools_that_all_failed_are_noticed(name, noticed):
    assert notes(fold(name), skill_missing=False) == noticed


def test_one_tool_that_went_well_is_enough():
    folded = step(fold("toolfail"), {"type": "tool_execution_end", "isError": False})

    assert notes(folded, skill_missing=True) == ["skill-missing"]


def test_failed_and_aborted_attempts_are_no_turns():
    assert fold("aborted").turns == 1


def test_a_compaction_is_paid_for_but_is_no_turn():
    records = stream_records("compaction")
    with_it = fold("compaction")
    without = START
    for record in records:
        if record["type"] != "compaction_end":
            without = step(without, record)

    assert with_it.turns == without.turns
    assert with_it.tokens.total > without.tokens.total


def test_the_context_is_taken_from_the_session_statistics():
    assert fold("happy").context == (1725, 128000)


def test_only_an_explicit_false_means_not_aborted():
    assert step(START, {"type": "agent_settled"}).aborted
    assert not step(START, {"type": "agent_settled", "aborted": False}).aborted


_keys = st.sampled_from(
    ["message", "usage", "cost", "total", "data", "entry", "stopReason", "contextUsage", "role"]
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=4),
    max_leaves=12,
)
_kinds = st.sampled_from(
    ["message_end", "agent_settled", "auto_retry_start", "compaction_end", "entry_appended", "response"]
)


@given(_kinds, st.dictionaries(_keys, _json), st.sampled_from(["prompt", "get_session_stats", None]))
def test_no_shape_of_event_breaks_the_fold(kind, event, command):
    folded = step(START, {**event, "type": kind, "command": command})

    assert folded.turns in (0, 1)
    json.dumps(folded)
