"""Each block of an exit line keeps to its closed set of fields, or is None as a whole."""

import math

import pytest

from pidispatch.domain.runs.exitblocks import (
    SESSION_REASONS,
    Context,
    Resources,
    Session,
    ToldTokens,
    ToldUsage,
    UsageRow,
)
from pidispatch.domain.runs.exitfields import (
    SAFE_INTEGER,
    count,
    read_context,
    read_resources,
    read_session,
    read_tokens,
    read_usage,
    safe_integer,
)

TOKEN_COUNTS = {
    "input": "input",
    "output": "output",
    "total": "total",
    "rootTotal": "root_total",
    "otherTotal": "other_total",
    "looseTotal": "loose_total",
    "sessions": "sessions",
    "calls": "calls",
    "unresolved": "unresolved",
    "unpriced": "unpriced",
    "childTotal": "child_total",
    "childProcesses": "child_processes",
    "unmeteredChildren": "unmetered_children",
    "costCapMicros": "cost_cap_micros",
    "costRefused": "cost_refused",
    "boundExceeded": "bound_exceeded",
    "longContext": "long_context",
    "costUnjudged": "cost_unjudged",
    "costUnanswered": "cost_unanswered",
    "modelRefused": "model_refused",
}
ROW_COUNTS = {
    "calls": "calls",
    "input": "input",
    "output": "output",
    "cacheRead": "cache_read",
    "cacheWrite": "cache_write",
    "cacheWrite1h": "cache_write_1h",
    "reasoning": "reasoning",
    "total": "total",
    "unpriced": "unpriced",
}
RESOURCE_COUNTS = {
    "memPeak": "mem_peak",
    "oomKills": "oom_kills",
    "memSomeUsec": "mem_some_usec",
    "memFullUsec": "mem_full_usec",
    "cpuUsec": "cpu_usec",
    "throttledUsec": "throttled_usec",
    "throttled": "throttled",
    "pidsPeak": "pids_peak",
}
NO_COUNTS = [-1, 1.5, SAFE_INTEGER + 1, math.inf, -math.inf, True, "7", [7], {}]
NO_BLOCKS = [None, [], [1], "text", 3, 1.5, True]
READERS = [read_tokens, read_usage, read_context, read_session, read_resources]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (-3, -3),
        (3.0, 3),
        (-0.0, 0),
        (SAFE_INTEGER, SAFE_INTEGER),
        (-SAFE_INTEGER, -SAFE_INTEGER),
        (float(SAFE_INTEGER), SAFE_INTEGER),
        (SAFE_INTEGER + 1, None),
        (-SAFE_INTEGER - 1, None),
        (float(2**53), None),
        (10**400, None),
        (0.5, None),
        (math.inf, None),
        (-math.inf, None),
        (math.nan, None),
        (True, None),
        (False, None),
        ("1", None),
        (None, None),
        ([], None),
    ],
)
def test_only_what_javascript_holds_exactly_is_a_safe_integer(value, number):
    assert safe_integer(value) == number
    assert type(safe_integer(value)) is type(number)


def test_a_count_is_not_negative():
    assert count(0) == 0
    assert count(-1) is None


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("value", NO_BLOCKS)
def test_what_is_no_object_is_no_block(reader, value):
    assert reader(value) is None


@pytest.mark.parametrize("reader", READERS)
def test_an_empty_object_is_no_block(reader):
    assert reader({}) is None


def test_every_token_field_is_read_under_its_own_name():
    block = {wire: number for number, wire in enumerate(TOKEN_COUNTS)}
    block |= {"cost": 0.25, "metered": True}

    expected = {name: number for number, name in enumerate(TOKEN_COUNTS.values())}
    assert read_tokens(block) == ToldTokens(**expected, cost=0.25, metered=True)


def test_absent_and_null_token_figures_stay_none():
    assert read_tokens({"total": 0, "input": None}) == ToldTokens(total=0)
    assert read_tokens({"total": 0}).unpriced is None


def test_token_fields_outside_the_closed_set_are_dropped():
    assert read_tokens({"total": 5, "root_total": 9, "__proto__": 1, "v": -1}) == ToldTokens(total=5)


def test_tokens_without_a_total_are_none():
    assert read_tokens({"input": 1, "output": 2}) is None
    assert read_tokens({"total": None, "input": 1}) is None


@pytest.mark.parametrize("wire", TOKEN_COUNTS)
@pytest.mark.parametrize("value", NO_COUNTS, ids=str)
def test_one_wrong_token_figure_makes_the_block_none(wire, value):
    assert read_tokens({"total": 1, wire: value}) is None


@pytest.mark.parametrize("extra", [{"metered": 1}, {"metered": "true"}, {"cost": True}, {"cost": "1"}])
def test_a_wrong_kind_of_token_figure_makes_the_block_none(extra):
    assert read_tokens({"total": 1} | extra) is None


@pytest.mark.parametrize("cost", [-0.01, math.inf, math.nan, 10**400])
def test_a_cost_is_a_finite_amount(cost):
    assert read_tokens({"total": 1, "cost": cost}) is None


def a_row(**changes):
    return {"provider": "scripted", "model": "demo-1", **changes}


def a_usage(*rows, **changes):
    return {"v": 1, "piAi": "1.6.0", "truncated": 0, "models": list(rows), **changes}


def test_every_usage_figure_is_read_under_its_own_name():
    figures = {wire: number for number, wire in enumerate(ROW_COUNTS)}
    expected = {name: number for number, name in enumerate(ROW_COUNTS.values())}

    usage = read_usage(a_usage(a_row(**figures, cost=0.5)))

    row = UsageRow(provider="scripted", model="demo-1", cost=0.5, **expected)
    assert usage == ToldUsage(1, "1.6.0", 0, (row,))


def test_absent_figures_of_a_usage_row_are_zero():
    assert read_usage(a_usage(a_row())).models == (UsageRow(provider="scripted", model="demo-1"),)


def test_the_meter_may_not_know_its_version_or_what_it_cut():
    usage = read_usage({"v": 2, "piAi": None, "models": [a_row()]})

    assert (usage.v, usage.pi_ai, usage.truncated) == (2, None, None)


def test_names_in_usage_are_lowered_and_may_hold_what_model_names_hold():
    row = a_row(provider="OpenRouter", model="~Meta-Llama/Llama_3.1:free@2+x")

    (read,) = read_usage(a_usage(row)).models

    assert (read.provider, read.model) == ("openrouter", "~meta-llama/llama_3.1:free@2+x")


@pytest.mark.parametrize(
    "name", ["", "a b", "a\n", "a\x00", "ü", "\u212a", "\ud800", "a" * 129, None, 1, ["a"]]
)
@pytest.mark.parametrize("field", ["provider", "model"])
def test_a_name_outside_the_charset_makes_usage_none(field, name):
    assert read_usage(a_usage(a_row(), a_row(**{field: name}))) is None


@pytest.mark.parametrize("wire", ROW_COUNTS)
@pytest.mark.parametrize("value", [*NO_COUNTS, None], ids=str)
def test_one_wrong_figure_in_one_row_makes_usage_none(wire, value):
    assert read_usage(a_usage(a_row(), a_row(**{wire: value}))) is None


@pytest.mark.parametrize("cost", [-1, math.inf, True, None, "0.1"])
def test_one_wrong_cost_in_one_row_makes_usage_none(cost):
    assert read_usage(a_usage(a_row(), a_row(cost=cost))) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 0},
        {"v": None},
        {"v": True},
        {"piAi": "1.6"},
        {"piAi": "1.6.0-rc.1"},
        {"piAi": 1},
        {"piAi": "1.6.0\n"},
        {"truncated": -1},
        {"truncated": True},
        {"models": []},
        {"models": None},
        {"models": {"0": a_row()}},
        {"models": "rows"},
        {"models": [None]},
        {"models": [[]]},
    ],
    ids=str,
)
def test_usage_that_breaks_a_rule_of_its_own_is_none(changes):
    assert read_usage(a_usage(a_row()) | changes) is None


def test_usage_holds_eight_named_rows_and_one_that_folds_the_rest():
    named = [a_row(model=f"demo-{number}") for number in range(9)]
    fold = a_row(provider="other", model="other")

    assert len(read_usage(a_usage(*named[:8])).models) == 8
    assert len(read_usage(a_usage(*named[:8], fold)).models) == 9
    assert read_usage(a_usage(*named)) is None
    assert read_usage(a_usage(*named[:7], fold, a_row(provider="Other", model="OTHER"))) is None
    assert read_usage(a_usage(*named[:8], fold, fold)) is None


@pytest.mark.parametrize(
    ("block", "context"),
    [
        ({"tokens": 0, "window": 1}, Context(0, 1)),
        ({"tokens": 5.0, "window": 128000, "extra": 1}, Context(5, 128000)),
        ({"tokens": -1, "window": 1}, None),
        ({"tokens": 1, "window": 0}, None),
        ({"tokens": 1}, None),
        ({"window": 1}, None),
        ({"tokens": None, "window": 1}, None),
        ({"tokens": 1, "window": SAFE_INTEGER + 1}, None),
        ({"tokens": True, "window": 1}, None),
    ],
)
def test_a_context_is_a_real_measurement_or_none(block, context):
    assert read_context(block) == context


@pytest.mark.parametrize("reason", sorted(SESSION_REASONS))
def test_each_session_reason_of_the_closed_set_is_kept(reason):
    assert read_session({"resumed": reason == "resumed", "reason": reason}).reason == reason


@pytest.mark.parametrize(
    ("block", "session"),
    [
        ({"resumed": True}, Session(True, None)),
        ({"resumed": False, "reason": None, "path": "/home"}, Session(False, None)),
        ({"resumed": False, "reason": "made-up"}, None),
        ({"resumed": False, "reason": ["absent"]}, None),
        ({"resumed": 1, "reason": "absent"}, None),
        ({"reason": "absent"}, None),
    ],
)
def test_a_session_has_a_verdict_and_a_known_reason_or_is_none(block, session):
    assert read_session(block) == session


def test_every_resource_is_read_under_its_own_name():
    block = {wire: number for number, wire in enumerate(RESOURCE_COUNTS)}

    assert read_resources(block) == Resources(
        **{name: number for number, name in enumerate(RESOURCE_COUNTS.values())}
    )


def test_a_resource_that_could_not_be_read_is_none_beside_the_others():
    assert read_resources({"memPeak": 0, "cpuUsec": None}) == Resources(mem_peak=0)


def test_resources_of_which_none_could_be_read_are_none():
    assert read_resources(dict.fromkeys(RESOURCE_COUNTS)) is None
    assert read_resources({"unknown": 1}) is None


@pytest.mark.parametrize("wire", RESOURCE_COUNTS)
@pytest.mark.parametrize("value", NO_COUNTS, ids=str)
def test_one_wrong_resource_makes_the_block_none(wire, value):
    assert read_resources({"pidsPeak": 1, wire: value}) is None
