"""The few members read from a request, and the one put in."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES, WIRE_APIS
from pidispatch.gateway.calls.envelope import NotARequest, edited, limit_edits, read_envelope, usage_edits
from pidispatch.gateway.wire.apis import BY_NAME

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
ELSEWHERE = ("background", "previous_response_id", "conversation", "prompt", "thread")
WORDS = {"stream_options", *ELSEWHERE}.union(*(api.known for api in BY_NAME.values()))
OTHERS = st.dictionaries(st.text().filter(lambda name: name.casefold() not in WORDS), VALUES)


@settings(max_examples=50)
@given(OTHERS, OTHERS, st.booleans(), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_it_reads_what_json_reads(before, after, stream, indent, ascii_only):
    request = {**before, "model": "a/b-1", **after, "stream": stream}
    body = json.dumps(request, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    envelope = read_envelope(body, OPENAI)

    assert (envelope.model, envelope.stream, set(envelope.spans)) == ("a/b-1", stream, {"model", "stream"})
    strange = [name for name in request if name not in WORDS and request[name] is not None]
    assert (envelope.strange is not None) == bool(strange)
    assert json.loads(edited(body, usage_edits(body, envelope)).decode("utf-8", "surrogatepass")) == {
        **request,
        "stream_options": {"include_usage": True},
    }


@given(st.binary())
def test_no_bytes_make_it_raise_anything_else(body):
    for api in WIRE_APIS:
        with pytest.raises(NotARequest):
            read_envelope(body, api)


@given(st.text(alphabet='{}[]:,"\\ modelstrau1'))
def test_no_text_that_looks_like_json_makes_it_raise_anything_else(text):
    try:
        read_envelope(b'{"model":"x",' + text.encode(), OPENAI)
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

    changed = json.loads(edited(body, usage_edits(body, read_envelope(body, OPENAI))))

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
        read_envelope(body, OPENAI)


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
        read_envelope(body, OPENAI)

    assert time.process_time() - started < 5


MEMBERS = [
    (OPENAI, "max_tokens"), (OPENAI, "max_completion_tokens"), (OPENAI, "n"), (OPENAI, "best_of"), (OPENAI, "service_tier"),
    (OPENAI, "web_search_options"), (RESPONSES, "max_output_tokens"),
    (RESPONSES, "store"),
    (ANTHROPIC, "max_tokens"), (ANTHROPIC, "thinking"), (ANTHROPIC, "tools"), (ANTHROPIC, "mcp_servers"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "name"), MEMBERS)
def test_a_member_is_found_however_its_name_is_escaped_and_refused_twice_or_in_another_case(api, name):
    def asked(*names):
        inner = ",".join(f'"{each}": {{"a":[1]}} ' for each in names)
        return f'{{"model":"m",{inner}}}'.encode()

    escaped = f"\\u{ord(name[0]):04x}{name[1:]}"
    for spelling in (name, escaped):
        body = asked(spelling)
        start, end = read_envelope(body, api).spans[name]
        assert body[start:end] == b'{"a":[1]}'
    for wrong in ([name, name], [name, escaped], [name.upper()], [name.replace("s", "\u017f", 1)]):
        if wrong == [name]:
            continue
        with pytest.raises(NotARequest):
            read_envelope(asked(*wrong), api)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m"}', b'{"max_tokens":7,"model":"m"}'),
        (b' { "model":"m", "max_tokens" : 9 , "x":"max_tokens"}', b' { "model":"m", "max_tokens" : 7 , "x":"max_tokens"}'),
        (b'{"max_tok\\u0065ns":null,"model":"m"}', b'{"max_tok\\u0065ns":7,"model":"m"}'),
        (b'{"model":"m","y":"\xff"}', b'{"max_tokens":7,"model":"m","y":"\xff"}'),
    ],
)  # fmt: skip
def test_a_limit_is_written_and_every_other_byte_stays(body, expected):
    envelope = read_envelope(body, OPENAI)

    assert edited(body, limit_edits(body, envelope, ("max_tokens",), 7)) == expected


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("value", [True, "resp_1", {"id": "x"}, [], 0])
def test_what_lies_outside_the_request_or_goes_on_after_its_answer_is_refused(name, value):
    with pytest.raises(NotARequest, match=f"{name} is not allowed"):
        read_envelope(json.dumps({"model": "m", name: value}).encode(), OPENAI)
    for nothing in (None, False):
        assert read_envelope(json.dumps({"model": "m", name: nothing}).encode(), RESPONSES).model == "m"


def test_no_other_spelling_of_such_a_member_passes():
    for body in (b'{"model":"m","Background":true}', b'{"model":"m","b\\u0061ckground":true}'):
        with pytest.raises(NotARequest):
            read_envelope(body, RESPONSES)
