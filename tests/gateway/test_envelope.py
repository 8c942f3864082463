"""The few members read from a request, and the one put in."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.gateway.envelope import Envelope, NotARequest, read_envelope, with_usage

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
ELSEWHERE = ("background", "previous_response_id", "conversation", "prompt", "thread")
WORDS = {"model", "stream", "stream_options", *ELSEWHERE}
OTHERS = st.dictionaries(st.text().filter(lambda name: name.casefold() not in WORDS), VALUES)


@settings(max_examples=50)
@given(OTHERS, OTHERS, st.booleans(), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_it_reads_what_json_reads(before, after, stream, indent, ascii_only):
    request = {**before, "model": "a/b-1", **after, "stream": stream}
    body = json.dumps(request, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    envelope = read_envelope(body)

    assert envelope == Envelope("a/b-1", stream, None)
    assert json.loads(with_usage(body, envelope).decode("utf-8", "surrogatepass")) == {
        **request,
        "stream_options": {"include_usage": True},
    }


@given(st.binary())
def test_no_bytes_make_it_raise_anything_else(body):
    with pytest.raises(NotARequest):
        read_envelope(body)


@given(st.text(alphabet='{}[]:,"\\ modelstrau1'))
def test_no_text_that_looks_like_json_makes_it_raise_anything_else(text):
    try:
        read_envelope(b'{"model":"x",' + text.encode())
    except NotARequest:
        return


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("null", {"include_usage": True}),
        ('{"include_usage":false}', {"include_usage": True}),
        ('{"a":1}', {"a": 1, "include_usage": True}),
        ('{"include_usage":true}', {"include_usage": True}),
        ("[1]", [1]),
    ],
)
def test_options_that_are_there_are_kept_and_added_to(options, expected):
    body = f'{{"model":"m","stream":true,"stream_options": {options} ,"n":1}}'.encode()

    changed = json.loads(with_usage(body, read_envelope(body)))

    assert changed == {"model": "m", "stream": True, "stream_options": expected, "n": 1}


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"b"}',
        b'{"mod\\u0065l":"a","model":"b"}',
        b'{"MODEL":"b","model":"a"}',
        b'{"model":"a"} {"model":"b"}',
        b'{"model":"a b"}',
        b'{"model":"' + b"x" * 201 + b'"}',
        b'{"model":"a","stream":"yes"}',
        b'{"model":"a","stream_options":{"x":"' + b"y" * 5000 + b'"},"stream":true',
        b"\xff\xfe{",
    ],
)
def test_two_readings_of_one_request_are_refused(body):
    with pytest.raises(NotARequest):
        read_envelope(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","x":' + b"[" * 3_000_000,
        b'{"model":"m","x":["' + b'\\"' * 2_000_000,
        b'{"model":"m","x":"' + b"\\n" * 2_000_000,
        b'{"model":"m","x":[' + b'""' * 1_000_000,
        b'{"model":"m"' + b',"a":1' * 500_000,
        b'{"model":' + b" " * 3_000_000,
    ],
)
def test_hostile_bodies_take_no_more_than_their_length(body):
    started = time.process_time()

    with pytest.raises(NotARequest):
        read_envelope(body)

    assert time.process_time() - started < 5


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("value", [True, "resp_1", {"id": "x"}, [], 0])
def test_what_lies_outside_the_request_or_goes_on_after_its_answer_is_refused(name, value):
    with pytest.raises(NotARequest, match=f"{name} is not allowed"):
        read_envelope(json.dumps({"model": "m", name: value}).encode())
    for nothing in (None, False):
        assert read_envelope(json.dumps({"model": "m", name: nothing}).encode()).model == "m"


def test_no_other_spelling_of_such_a_member_passes():
    for body in (b'{"model":"m","Background":true}', b'{"model":"m","b\\u0061ckground":true}'):
        with pytest.raises(NotARequest):
            read_envelope(body)
