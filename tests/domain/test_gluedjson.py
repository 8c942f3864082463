"""The value that ends a line is found where trying every anchor in turn would find it, in linear work."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pidispatch.domain.text.gluedjson import Scan, scan, value_start

ANCHOR = '{"event":"'
NO_LIMIT = 10**9

PIECES = [
    ANCHOR,
    '{"event":"exit"}',
    '{"event":"x","y":',
    '{"event":"x","y":[1,',
    *'{}[],:"\\ \t\x00\x1f',
    '{"',
    '"a"',
    '"a":',
    ',"b":',
    "\\u0041",
    "\\ud800",
    "\\x",
    "0",
    "01",
    "-1.5e+3",
    "1.",
    "true",
    "nul",
    "NaN",
    "Infinity",
    "é",
    "\ufeff",
]
lines = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=24).map("".join)


def no_constant(name):
    raise ValueError(name)


def parses(text):
    try:
        json.loads(text, parse_constant=no_constant)
    except ValueError:
        return False
    return True


def by_trying_each_anchor(line):
    start = 0
    while start != -1:
        if parses(line[start:]):
            return start
        start = line.find(ANCHOR, start + 1)
    return None


def stripped(line):
    return line.replace("\n", "").strip(" \t\r")


@given(lines.map(stripped))
@example('"abc{"event":"exit"}')
@example('{"event":"{"event":"exit"}')
@example('{"event":"x","y":{"event":"z"} ,{"event":"exit"}')
@example('[{"event":"x"},{"event":"y","z":{}}')
def test_the_start_is_the_one_that_trying_every_anchor_finds(line):
    assert value_start(line, ANCHOR, max_depth=NO_LIMIT) == by_trying_each_anchor(line)


@given(lines)
def test_a_scan_is_complete_exactly_when_a_strict_decoder_accepts_the_text(text):
    found = scan(text.strip(), 0)

    assert (found.complete and found.end == len(text.strip())) == parses(text.strip())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values, st.booleans())
def test_every_json_value_is_complete_and_each_of_its_beginnings_is_not(value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)

    assert scan(text, 0).complete
    if isinstance(value, dict | list | str):
        assert not any(scan(text[:cut], 0).complete for cut in range(len(text)))


def test_a_value_that_is_nested_too_deep_is_no_value():
    line = '{"event":"x","y":' + "[" * 9 + "]" * 9 + "}"

    assert value_start(line, ANCHOR, max_depth=10) == 0
    assert value_start(line, ANCHOR, max_depth=9) is None


def test_the_depth_of_a_glued_value_is_its_own():
    line = "[" * 50 + '{"event":"exit","y":{}}'

    assert value_start(line, ANCHOR, max_depth=2) == 50
    assert value_start(line, ANCHOR, max_depth=1) is None


def work_on(line):
    """Count the characters that all scans of one line went over."""
    work = 0

    def counting(text, start):
        nonlocal work
        found = scan(text, start)
        work += found.end - start + 1
        return found

    value_start(line, ANCHOR, max_depth=64, scan=counting)
    return work


HOSTILE = {
    "anchors only": ANCHOR,
    "objects that stay open": '{"event":"x","y":',
    "objects with a list": '{"event":"x","y":[1,2,3],"z":',
    "whole objects side by side": '{"event":"x"}',
    "objects with a wrong end": '{"event":"x","y":[1,2,3] 4}',
    "strings that end in an anchor": '"abc{"event":"',
    "brackets": "[",
    "open arrays with an object": '[{"event":"x"},',
    "open strings": '{"event":"\\',
    "control characters": '{"event":"\x01',
    "numbers": "1,",
    "wide blanks": '{"event":"x"' + " " * 40 + "x",
}


@pytest.mark.parametrize("pattern", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("prefix", ["", '{"event":"x","y":', "[", '"'])
@pytest.mark.parametrize("suffix", ["", "!", '{"event":"x"}', '"'])
def test_no_line_makes_it_read_a_character_more_than_three_times(prefix, pattern, suffix):
    for size in (2_000, 20_000):
        line = prefix + pattern * (size // len(pattern)) + suffix

        assert work_on(line) <= 3 * len(line)


@given(lines, st.integers(1, 200))
def test_repeating_any_line_never_reads_a_character_more_than_three_times(line, times):
    repeated = stripped(line * times)

    assert work_on(repeated) <= 3 * len(repeated) + 3


def test_a_scan_says_where_it_stopped():
    assert scan('{"a":1} x', 0) == Scan(complete=True, end=7, inner=0, depth=1)
    assert scan('{"a":x', 0) == Scan(complete=False, end=5, inner=None, depth=1)
    assert scan('[{"a":1} ', 0) == Scan(complete=False, end=9, inner=1, depth=2)
