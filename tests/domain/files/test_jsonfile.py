"""Strict JSON: what is refused, where, and that nothing else is ever raised."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.text.jsonfile import DEPTH_LIMIT, SIZE_LIMIT, Node, Number, read_json, write_json
from pidispatch.errors import ConfigurationRefused

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def plain(node):
    match node.value:
        case dict():
            return {key: plain(value) for key, value in node.value.items()}
        case list():
            return [plain(item) for item in node.value]
        case Number(text):
            return json.loads(text)
        case value:
            return value


def problem(content):
    with pytest.raises(ConfigurationRefused) as refused:
        read_json(content if isinstance(content, bytes) else content.encode(), "f.json")
    (only,) = refused.value.problems
    return only


@given(JSON, st.sampled_from([None, 2]))
def test_what_json_can_say_is_read_like_the_standard_library_reads_it(value, indent):
    assert plain(read_json(json.dumps(value, indent=indent).encode(), "f")) == value


@given(JSON)
def test_what_is_written_reads_back_the_same(value):
    node = read_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"), "f")

    assert read_json(write_json(node), "f") == node


@given(st.binary(max_size=200) | st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \n\\ud8', max_size=60))
def test_no_bytes_raise_anything_but_a_refusal_and_all_that_is_read_is_json(content):
    data = content if isinstance(content, bytes) else content.encode()
    try:
        node = read_json(data, "f")
    except ConfigurationRefused:
        return
    assert plain(node) == json.loads(data)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "it ends where a value"),
        ("\n\n", 3, "it ends where a value"),
        ('{"a": 1,\n "b": 2,\n "a": 3}', 3, 'the key "a" is there twice (first on line 1)'),
        ('{"x": [\n{"deep": {"a":1,\n"a":2}}]}', 3, "there twice"),
        ('{"a": NaN}', 1, "no NaN"),
        ('{"a":\n Infinity}', 2, "no Infinity"),
        ('{"a": -Infinity}', 1, "no Infinity"),
        ('{"a": 1e999}', 1, "too large"),
        ('{"a": -1e999}', 1, "too large"),
        ('{"a": 1,5}', 1, "a key in double quotes"),
        ('{"a": 05}', 1, "not a value"),
        ('{"a": +5}', 1, "not a value"),
        ('{"a": .5}', 1, "not a value"),
        ('{"a": 5.}', 1, "not a value"),
        ('{"a": 5x}', 1, "not a value"),
        ('{"a": truex}', 1, "not a value"),
        ("{'a': 1}", 1, "not a key"),
        ('{"a": 1,}', 1, "a comma stands before '}'"),
        ("[1,]", 1, "stands where a value must"),
        ('{"a": 1} // why', 1, "there is more after its end"),
        ('{"a": 1}\n{"b": 2}', 2, "there is more after its end"),
        ('{"a" 1}', 1, "is missing"),
        ('{"a": 1 "b": 2}', 1, "must stand here"),
        ('{"a": "\t"}', 1, "not a value"),
        ('{"a": "\\ud800"}', 1, "half a surrogate pair"),
        ('{"a": "b', 1, "not a value"),
        ('{"a":', 1, "it ends where"),
    ],
)
def test_a_fault_is_told_with_its_line(text, line, told):
    said = problem(text)

    assert said.startswith(f"f.json:{line}: is not valid JSON: ")
    assert told in said


def test_bytes_that_are_no_utf8_and_a_byte_order_mark_are_refused():
    assert problem(b'{\n"a": "\xff"}') == "f.json:2: is not UTF-8"
    assert "byte order mark" in problem(b"\xef\xbb\xbf{}")
    assert problem("{}".encode("utf-16")).startswith("f.json:1:")


def test_depth_and_size_are_bounded():
    deep = DEPTH_LIMIT
    assert read_json(b"[" * deep + b"]" * deep, "f")
    assert "nested deeper" in problem(b"[" * (deep + 1) + b"]" * (deep + 1))
    assert "nested deeper" in problem(b"[" * SIZE_LIMIT)
    assert read_json(b" " * (SIZE_LIMIT - 2) + b"{}", "f") == Node({})
    assert problem(b" " * (SIZE_LIMIT - 1) + b"{}") == f"f.json: is larger than {SIZE_LIMIT} bytes"


@pytest.mark.parametrize(
    ("text", "whole"),
    [("5", 5), ("5.0", 5), ("1e1", 10), ("50e-1", 5), ("-3", -3), ("0", 0), ("-0", 0), ("9007199254740991", 2**53 - 1),
     ("1.5", None), ("1e21", None), ("9007199254740992", None), ("9007199254740993", None), ("1e-1", None)],
)  # fmt: skip
def test_a_number_is_whole_where_a_reader_of_doubles_can_count(text, whole):
    assert Number(text).whole() == whole


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_whole_agrees_with_the_rule_of_the_reference(value):
    wanted = int(value) if math.isfinite(value) and value == int(value) and abs(value) <= 2**53 - 1 else None

    assert Number(repr(value)).whole() == wanted


def test_lines_of_values_and_digits_of_numbers_are_kept():
    node = read_json(b'{\n  "a": 0.10,\n  "b": [\n    1e2]}', "f")

    assert node.value["a"] == Node(Number("0.10"))
    assert node.value["a"].line == 2
    assert node.value["b"].line == 3
    assert node.value["b"].value[0].line == 4
    assert write_json(node) == b'{\n  "a": 0.10,\n  "b": [\n    1e2\n  ]\n}\n'
