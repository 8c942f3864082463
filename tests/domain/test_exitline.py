"""The last exit line is read out of any bytes: right, or not at all."""

import json
import mmap
import sys
import tracemalloc
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pidispatch.domain.runs.exitblocks import (
    SESSION_REASONS,
    Context,
    Resources,
    Session,
    ToldTokens,
    ToldUsage,
    UsageRow,
)
from pidispatch.domain.runs.exitfields import SAFE_INTEGER
from pidispatch.domain.runs.exitline import (
    MAX_DEPTH,
    MESSAGE_LIMIT,
    POLICY_LABELS,
    TAIL_LIMIT,
    ExitLine,
    parse_exit,
    policy_label,
)

CORPUS = Path(__file__).parent / "exitline_corpus"
EXPECTED = json.loads((CORPUS / "expected.json").read_text())
ANCHOR = b'{"event":"'
MIB = 1024 * 1024


def written(**fields):
    """Write one line the way a runner does: event and job first, no blanks, a newline on both sides."""
    event = {"event": "exit", "jobId": "pi-job-0a1b2c3d-7-1", **fields}
    return b"\n" + json.dumps(event, separators=(",", ":")).encode() + b"\n"


def code_of(tail):
    line = parse_exit(tail)
    return line and line.code


# What a line says


def test_a_whole_line_is_read_field_by_field():
    tail = written(
        code=0,
        reason="completed",
        turns=4,
        truncated=True,
        tokens={"total": 1540, "cost": 0.5, "metered": True, "childTotal": 3},
        usage={
            "v": 1,
            "piAi": "1.6.0",
            "truncated": 0,
            "models": [{"provider": "p", "model": "m", "calls": 4}],
        },
        context={"tokens": 10, "window": 100},
        session={"resumed": True, "reason": "resumed"},
        resources={"memPeak": 7, "cpuUsec": None},
        auth="0f" * 32,
    )

    assert parse_exit(tail) == ExitLine(
        code=0,
        reason="completed",
        turns=4,
        truncated=True,
        tokens=ToldTokens(total=1540, cost=0.5, metered=True, child_total=3),
        usage=ToldUsage(1, "1.6.0", 0, (UsageRow(provider="p", model="m", calls=4),)),
        context=Context(10, 100),
        session=Session(resumed=True, reason="resumed"),
        resources=Resources(mem_peak=7),
        auth="0f" * 32,
    )


def test_what_a_line_does_not_say_is_none():
    assert parse_exit(written(code=1, reason="infra")) == ExitLine(code=1, reason="infra")


def test_an_exit_line_that_says_nothing_is_still_the_exit_line():
    assert parse_exit(b'{"event":"exit"}') == ExitLine(code=None)


def test_an_unknown_field_is_dropped():
    assert parse_exit(written(code=0, retryTurns=3, cost=1)) == ExitLine(code=0)


def test_a_broken_block_takes_none_of_the_others_with_it():
    line = parse_exit(written(code=0, turns=2, tokens={"total": -1}, context={"tokens": 1, "window": 2}))

    assert line == ExitLine(code=0, turns=2, context=Context(1, 2))


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("code", "97", 97),
        ("code", "-1", -1),
        ("code", "2.0", 2),
        ("code", "1e0", 1),
        ("code", "-0", 0),
        ("code", str(SAFE_INTEGER), SAFE_INTEGER),
        ("code", str(SAFE_INTEGER + 1), None),
        ("code", "0.5", None),
        ("code", "1e999", None),
        ("code", "9" * 5000, None),
        ("code", "true", None),
        ("code", "false", None),
        ("code", "null", None),
        ("code", '"0"', None),
        ("code", "[0]", None),
        ("turns", "0", 0),
        ("turns", "3.0", 3),
        ("turns", "-1", None),
        ("turns", "true", None),
        ("turns", "1.5", None),
        ("truncated", "true", True),
        ("truncated", "false", False),
        ("truncated", "1", False),
        ("truncated", '"true"', False),
        ("reason", '"turn_budget"', "turn_budget"),
        ("reason", '"unknown-stop-reason:toolUse"', "unknown-stop-reason:toolUse"),
        ("reason", '""', None),
        ("reason", '"two words"', None),
        ("reason", '"a\\n"', None),
        ("reason", '"\\ud800"', None),
        ("reason", f'"{"a" * 129}"', None),
        ("reason", "7", None),
        ("signal", '"SIGKILL"', "SIGKILL"),
        ("signal", '"SIGRTMIN+3"', "SIGRTMIN+3"),
        ("signal", '"SIG"', None),
        ("signal", '"KILL"', None),
        ("signal", "9", None),
        ("auth", f'"{"a1" * 32}"', "a1" * 32),
        ("auth", f'"{"A1" * 32}"', None),
        ("auth", f'"{"a1" * 31}"', None),
        ("auth", f'"{"a1" * 32}\\n"', None),
        ("auth", "1", None),
        ("message", '""', ""),
        ("message", '"\\u00e9\\ud83d\\ude00"', "é😀"),
        ("message", '"a\\ud800b\\udc00c\\u0000d"', "a\ufffdb\ufffdc\ufffdd"),
        ("message", "3", None),
        ("message", '["a"]', None),
    ],
)
def test_a_field_is_kept_or_none(field, text, value):
    line = parse_exit(f'{{"event":"exit","code":0,"{field}":{text}}}'.encode())

    assert getattr(line, field) == value
    assert type(getattr(line, field)) is type(value)


def test_a_message_is_cut_on_a_character():
    line = parse_exit(written(code=1, message="😀" * (MESSAGE_LIMIT + 1)))

    assert line.message == "😀" * MESSAGE_LIMIT


def test_the_last_of_two_equal_keys_counts():
    assert code_of(b'{"event":"note","event":"exit","code":1,"code":2}') == 2


# Which line counts


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\n\n\n",
        b"no line at all\n",
        b"null",
        b"7\n",
        b'"exit"',
        b'["exit"]',
        b'{"event":"exit"',
        b'{"event":"exit","code":0}}',
        b'{"event":"exit","code":0,}',
        b'{"event":"exit","code":NaN}',
        b'{"event":"exit","code":-Infinity}',
        b'{"event":"exit","code":01}',
        b'{"event":"exit","message":"\x00"}',
        b'{"event":"exit","code":0} and more',
        b'{"event":["exit"]}',
        b'{"event":"Exit"}',
        b'{"event":"turn_budget_exceeded","turns":3,"maxTurns":2}',
        b'[{"event":"exit","code":0}]',
        b'{"event":"note","inner":{"event":"exit","code":0}}',
        b'{"event":"note","text":"{\\"event\\":\\"exit\\",\\"code\\":0}"}',
    ],
)
def test_what_is_no_exit_line_gives_nothing(tail):
    assert parse_exit(tail) is None


def test_the_last_of_several_exit_lines_counts():
    assert code_of(written(code=0) + written(code=2) + written(code=1)) == 1


def test_a_last_line_with_nothing_right_in_it_still_hides_the_earlier_ones():
    assert parse_exit(written(code=0, turns=3) + b'{"event":"exit","code":"0"}\n') == ExitLine(code=None)


def test_other_events_and_noise_after_the_line_are_passed_over():
    noise = b'{"event":"pi_auto_retry","attempt":1}\nbye \xff\x00\n[1,2\n{"event":"exit","co'

    assert code_of(written(code=2) + noise) == 2


def test_blanks_around_a_line_and_any_order_of_keys_are_fine():
    assert code_of(b' \t{ "code" : 3 , "event" : "exit" } \t\r\n') == 3


@pytest.mark.parametrize(
    "stray",
    [
        b"progress 45%",
        b"{",
        b"[",
        b'"',
        b"\\",
        b'{"a":"',
        b'{"a":',
        b'[{"event":"x"},',
        b"\xf0\x9f\x98",
        b'{"event":"pi_auto_retry","attempt":1}',
        b'{"event":"exit","code":9,',
        b'{"event":"exit","code":9}',
        b'{"event":"note","text":"',
        ANCHOR,
        ANCHOR * 3,
    ],
)
def test_a_line_glued_to_stray_bytes_is_repaired(stray):
    assert code_of(stray + written(code=5).strip() + b"\n") == 5


def test_the_head_that_the_tail_cut_off_is_no_value():
    line = written(code=0, reason="completed", tokens={"total": 3}, context={"tokens": 1, "window": 2})

    assert all(parse_exit(line[cut:]) is None for cut in range(2, len(line)))


def a_real_line():
    return (CORPUS / "whole-run.bin").read_bytes()


def test_cutting_a_real_output_anywhere_never_gives_a_wrong_value():
    output = a_real_line()
    whole = parse_exit(output)

    readings = {parse_exit(output[start:end]) for start in (0, 40) for end in range(start, len(output))}
    readings |= {parse_exit(output[start:]) for start in range(len(output))}

    assert readings == {None, whole}


def test_a_cut_last_line_leaves_the_one_before():
    earlier, later = written(code=2, reason="turn_budget"), written(code=0, reason="completed", turns=3)

    for end in range(len(later) - 2):
        assert code_of(earlier + later[:end]) == 2


# The label of a policy stop


@pytest.mark.parametrize("reason", sorted(POLICY_LABELS))
def test_each_label_of_the_closed_set_names_a_policy_stop(reason):
    assert policy_label(parse_exit(written(code=2, reason=reason)), 2) == reason


@pytest.mark.parametrize(
    ("line", "actual_code"),
    [
        (ExitLine(code=2, reason="cost-cap"), 0),
        (ExitLine(code=2, reason="cost-cap"), 137),
        (ExitLine(code=2, reason="cost-cap"), None),
        (ExitLine(code=0, reason="cost-cap"), 2),
        (ExitLine(code=None, reason="cost-cap"), 2),
        (ExitLine(code=2, reason="turn_budget"), 2),
        (ExitLine(code=2, reason="oom-killed"), 2),
        (ExitLine(code=2), 2),
        (ExitLine(code=1, reason="cost-cap"), 1),
        (None, 2),
    ],
)
def test_no_label_without_the_code_seen_from_outside_and_a_known_reason(line, actual_code):
    assert policy_label(line, actual_code) is None


# Any line among any noise

counts = st.integers(0, SAFE_INTEGER)
costs = st.floats(0, 1e9, allow_nan=False)
maybe_count = st.none() | counts
names = st.from_regex(r"[a-z0-9._:/@+~-]{1,20}", fullmatch=True).filter(lambda name: name != "other")

exit_tokens = st.builds(
    ToldTokens,
    total=counts,
    cost=st.none() | costs,
    metered=st.none() | st.booleans(),
    input=maybe_count,
    unmetered_children=maybe_count,
    cost_cap_micros=maybe_count,
)
usage_rows = st.builds(
    UsageRow, provider=names, model=names, calls=counts, cache_write_1h=counts, total=counts, cost=costs
)
usages = st.builds(
    ToldUsage,
    v=st.integers(1, 9),
    pi_ai=st.sampled_from([None, "1.6.0"]),
    truncated=maybe_count,
    models=st.lists(usage_rows, min_size=1, max_size=8).map(tuple),
)
storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=60)
exit_lines = st.builds(
    ExitLine,
    code=st.integers(0, 255),
    reason=st.from_regex(r"[a-z][a-z0-9_:-]{0,20}", fullmatch=True),
    message=st.none() | storable,
    turns=maybe_count,
    truncated=st.booleans(),
    tokens=st.none() | exit_tokens,
    usage=st.none() | usages,
    context=st.none() | st.builds(Context, counts, st.integers(1, SAFE_INTEGER)),
    session=st.none() | st.builds(Session, st.booleans(), st.sampled_from(sorted(SESSION_REASONS))),
    signal=st.sampled_from([None, "SIGKILL", "SIGTERM"]),
    resources=st.none() | st.builds(Resources, mem_peak=counts, oom_kills=maybe_count),
    auth=st.none() | st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
)


def camel(name):
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def wire(value):
    if isinstance(value, dict):
        return {camel(name): wire(inner) for name, inner in value.items() if inner is not None}
    return [wire(inner) for inner in value] if isinstance(value, list | tuple) else value


def as_written(line):
    return written(**wire(asdict(line)))


noise_pieces = st.binary(max_size=12) | st.sampled_from(
    [ANCHOR, b'{"', b'"', b"\\", b"{", b"[", b"}", b'{"event":"x","y":', b'{"event":"exit","code":9}', b"1,"]
)
noise = st.lists(noise_pieces, max_size=6).map(b"".join)
one_line_noise = noise.map(lambda stray: stray.replace(b"\n", b""))
silent_noise = noise.filter(lambda stray: parse_exit(stray) is None)


@given(exit_lines, noise, silent_noise)
def test_any_line_is_read_back_from_among_any_noise(line, before, after):
    assert parse_exit(before + as_written(line) + after) == line


@given(exit_lines, one_line_noise)
@example(ExitLine(code=0, reason="completed"), b'{"event":"x"},{"event":"y","z":[')
def test_any_line_is_read_back_when_any_bytes_are_glued_before_it(line, stray):
    assert parse_exit(stray + as_written(line).strip() + b"\n") == line


@given(st.lists(exit_lines, min_size=1, max_size=4), noise)
def test_of_any_lines_the_last_is_read(lines, between):
    assert parse_exit(between.join(b"\n" + as_written(line) for line in lines)) == lines[-1]


@given(exit_lines, st.data())
def test_a_cut_of_any_line_is_the_line_or_nothing(line, data):
    tail = as_written(line)
    start = data.draw(st.integers(0, len(tail)))
    end = data.draw(st.integers(start, len(tail)))

    assert parse_exit(tail[start:end]) in {None, line}


def storable_texts(value):
    if isinstance(value, dict):
        return all(storable_texts(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return all(storable_texts(inner) for inner in value)
    return not isinstance(value, str) or ("\x00" not in value and bool(value.encode()) == bool(value))


@given(st.binary() | noise)
def test_no_bytes_raise(tail):
    parse_exit(tail)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
block_values = json_values | st.dictionaries(
    st.sampled_from(["total", "cost", "v", "models", "tokens", "window", "resumed", "reason", "memPeak"]),
    json_values,
)
FIELDS = [
    "code",
    "reason",
    "message",
    "turns",
    "tokens",
    "usage",
    "context",
    "session",
    "signal",
    "resources",
    "auth",
]


@given(st.dictionaries(st.sampled_from(FIELDS), block_values))
def test_any_values_in_the_fields_give_a_line_that_can_be_stored(event):
    line = parse_exit(written(**event))

    assert line is None or storable_texts(asdict(line))


# The corpus


def test_the_corpus_and_its_expectations_name_the_same_files():
    assert {path.stem for path in CORPUS.glob("*.bin")} == set(EXPECTED)


def summary(line):
    return line and {
        "code": line.code,
        "reason": line.reason,
        "turns": line.turns,
        "total": line.tokens and line.tokens.total,
        "rows": line.usage and len(line.usage.models),
        "window": line.context and line.context.window,
        "session": line.session and line.session.reason,
    }


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_file_of_the_corpus_reads_as_expected(name):
    assert summary(parse_exit((CORPUS / f"{name}.bin").read_bytes())) == EXPECTED[name]


@given(st.sampled_from(sorted(EXPECTED)), st.sampled_from(sorted(EXPECTED)), noise, st.data())
def test_no_mixture_of_corpus_files_raises(first, second, stray, data):
    one, two = ((CORPUS / f"{name}.bin").read_bytes() for name in (first, second))
    cut = data.draw(st.integers(0, len(one)))

    parse_exit(one[:cut] + stray + two)
    parse_exit(two[: len(two) // 2] + stray + one[cut:])


# Size and depth


def test_a_million_lines_glued_to_each_other_give_the_last():
    assert code_of(b'{"event":"exit","code":0} ' * 1_000_000 + b'{"event":"exit","code":1}') == 1


def test_only_the_end_of_the_output_is_looked_at():
    line = written(code=4)

    assert code_of(line + b"x" * (TAIL_LIMIT - len(line))) == 4
    assert code_of(line + b"x" * TAIL_LIMIT) is None


def test_a_line_that_begins_at_the_cut_is_whole():
    line = written(code=4).strip()

    assert code_of(b"x" * TAIL_LIMIT + line + b"\n" * (TAIL_LIMIT - len(line))) == 4
    assert code_of(b"x" * TAIL_LIMIT + line + b"\n" * (TAIL_LIMIT - len(line) + 1)) is None


def test_300_mib_without_a_newline_are_not_copied():
    line = b'"' + written(code=7).strip()
    with mmap.mmap(-1, 300 * MIB) as output:
        output[-len(line) :] = line
        tracemalloc.start()
        try:
            assert code_of(output) == 7
            assert tracemalloc.get_traced_memory()[1] < 4 * MIB
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "piece",
    [
        ANCHOR,
        b'{"event":"exit","code":0,"x":',
        b'{"event":"exit","code":0,"x":[1,{"a":"b"}],"y":',
        b'{"event":"exit","code":0}x\n',
        b"[",
        b'{"a":',
        b"\x00",
        b"\xff",
        b'"\\',
        b"\\ud800",
        b"9",
        b"1,",
        b"\n",
    ],
)
def test_a_million_times_the_same_bytes_give_nothing(piece):
    assert parse_exit(piece * 1_000_000) is None


@pytest.mark.parametrize("depth", [MAX_DEPTH, 10_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_line_that_is_nested_too_deep_is_passed_over(depth, opening, closing):
    deep = opening * (depth - 1) + "[]" + closing * (depth - 1)
    hostile = f'{{"event":"exit","code":0,"x":{deep}}}\n'.encode()

    assert len(hostile) < TAIL_LIMIT - 100
    assert code_of(written(code=2) + hostile) == 2


def test_a_line_as_deep_as_allowed_is_read():
    depth = MAX_DEPTH - 1

    assert code_of(f'{{"event":"exit","code":0,"x":{"[" * depth}{"]" * depth}}}'.encode()) == 0


def test_a_line_behind_ten_thousand_open_brackets_is_read():
    assert code_of(b"[" * 10_000 + written(code=3).strip()) == 3


def frames_in_use():
    frame, depth = sys._getframe(), 0
    while frame:
        frame, depth = frame.f_back, depth + 1
    return depth


def test_a_caller_with_little_stack_left_gets_nothing_rather_than_an_error():
    depth = MAX_DEPTH - 1
    tail = written(code=2) + f'{{"event":"exit","code":0,"x":{"[" * depth}{"]" * depth}}}'.encode()

    def far_down(frames):
        return code_of(tail) if frames == 0 else far_down(frames - 1)

    assert far_down(sys.getrecursionlimit() - frames_in_use() - 50) == 2
