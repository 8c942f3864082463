"""What the meter reads from answers, however they are cut or broken."""

import itertools
import json
import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pidispatch.domain.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.entrypoints.scripted import SCENARIOS, usage_of, wire, wire_responses
from pidispatch.gateway.metering import Meter
from pidispatch.gateway.sse import EventData
from pidispatch.ports import CallEnd

MESSAGE = SCENARIOS["happy"].steps[0]
USAGE = usage_of(1, len(MESSAGE.parts))
STREAMS = {
    OPENAI: b"".join(wire.openai_stream("m", MESSAGE, USAGE, "t", with_usage=True)),
    ANTHROPIC: b"".join(wire.anthropic_stream("m", MESSAGE, USAGE, "t")),
    RESPONSES: b"".join(wire_responses.responses_stream("m", MESSAGE, USAGE, "t")),
}
MEASURED = CallEnd(200, "tool_use", USAGE.tokens_in, USAGE.tokens_out, USAGE.cache_read)
SSE, JSON = "text/event-stream; charset=utf-8", "application/json"


def measure(api, pieces, *, kind=SSE, stream=True, size=300, status=200, **how):
    meter = Meter(api, size)
    meter.begin(status, kind, asked_stream=stream)
    for piece in pieces:
        meter.feed(piece)
    return meter.end(**how)


def sse(*events):
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


@pytest.mark.parametrize("api", STREAMS)
def test_a_stream_cut_at_any_byte_adds_up_to_the_same(api):
    stream = STREAMS[api]

    for at in range(len(stream) + 1):
        assert measure(api, [stream[:at], stream[at:]]) == MEASURED


@pytest.mark.parametrize("api", STREAMS)
@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
def test_lines_may_end_in_any_of_three_ways_and_come_byte_by_byte(api, end):
    stream = b"\xef\xbb\xbf: hello\n\nretry: 5\n" + STREAMS[api]
    stream = stream.replace(b"\n", end)

    assert measure(api, [stream[at : at + 1] for at in range(len(stream))]) == MEASURED


@given(st.lists(st.integers(0, 4000)), st.sampled_from(sorted(STREAMS)))
def test_cuts_anywhere_change_nothing(cuts, api):
    stream = STREAMS[api]
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]

    assert measure(api, [stream[a:b] for a, b in itertools.pairwise(edges)]) == MEASURED


def check_sound(end):
    for name in ("tokens_in", "tokens_out", "cache_read", "cache_write", "reasoning"):
        assert isinstance(getattr(end, name), int)
        assert 0 <= getattr(end, name) < 2**40
    assert end.stop_reason in {"stop", "tool_use", "length", "error", "aborted"}


@given(
    st.lists(st.binary()),
    st.sampled_from(sorted(STREAMS)),
    st.sampled_from([SSE, JSON, None, "\x00"]),
    st.booleans(),
)
@example([b"data: " + b"[" * 100_000 + b"\n\n"], OPENAI, SSE, True)
@example([b'data: {"usage":{"prompt_tokens":1e999,"completion_tokens":NaN}}\n\n'], OPENAI, SSE, True)
@example([b'{"usage":{"prompt_tokens":-5}}'], OPENAI, JSON, False)
@example([b"data: " + b"9" * 5000 + b"\n\n"], ANTHROPIC, SSE, True)
def test_no_bytes_make_it_raise(pieces, api, kind, stream):
    check_sound(measure(api, pieces, kind=kind, stream=stream))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["usage", "choices", "delta", "message", "type", "finish_reason", "stop_reason", "prompt_tokens",
             "completion_tokens", "prompt_tokens_details", "cached_tokens", "input_tokens", "output_tokens",
             "cache_creation", "error", "content", "x_groq", "total_tokens", "response", "status", "item", "output",
             "incomplete_details", "reason", "output_tokens_details", "input_tokens_details"]
        ),
        inner
        | st.sampled_from(
            ["message_start", "message_delta", "message", "stop", "end_turn", "response.completed",
             "response.output_item.done", "x.delta", "incomplete", "completed"]
        ),
        max_size=6,
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from(["usage", "choices", "type", "message", "delta", "error", "content", "response", "item", "status"]), JSON_VALUES)), st.sampled_from(sorted(STREAMS)))  # fmt: skip
def test_no_json_makes_it_raise(events, api):
    check_sound(measure(api, [sse(*events)]))


@given(st.integers(0, 5000), st.sampled_from(sorted(STREAMS)))
def test_a_stream_that_ends_early_is_never_taken_for_less_than_it_told(at, api):
    end = measure(api, [STREAMS[api][:at]], aborted=True)

    check_sound(end)
    if not end.measured:
        assert end.stop_reason in {"aborted", "tool_use"}
        assert end.tokens_in in {USAGE.tokens_in, 100}


@pytest.mark.parametrize(
    ("api", "whole"),
    [
        (OPENAI, wire.openai_whole("m", MESSAGE, USAGE, "t")),
        (ANTHROPIC, wire.anthropic_whole("m", MESSAGE, USAGE, "t")),
        (RESPONSES, wire_responses.responses_whole("m", MESSAGE, USAGE, "t")),
    ],
)
def test_an_unstreamed_answer_is_read_whole(api, whole):
    data = json.dumps(whole, indent=1).encode()

    assert measure(api, [data[:50], data[50:]], kind=JSON, stream=False) == MEASURED
    assert measure(api, [data], kind=JSON, stream=True) == MEASURED


def openai_end(usage, stop="stop"):
    return measure(OPENAI, [sse({"choices": [{"finish_reason": stop}]}, {"choices": [], "usage": usage})])


def test_what_chat_completions_count_in_other_words_is_understood():
    deepseek = openai_end({"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 60})
    written = openai_end(
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 20},
        }
    )
    xai = openai_end(
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 45,
            "completion_tokens_details": {"reasoning_tokens": 30},
        }
    )
    groq = measure(
        OPENAI, [sse({"choices": [{"finish_reason": "stop"}], "x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}})]
    )  # fmt: skip

    assert (deepseek.tokens_in, deepseek.cache_read) == (40, 60)
    assert (written.tokens_in, written.cache_read, written.cache_write) == (70, 10, 20)
    assert (xai.tokens_out, xai.reasoning) == (35, 30)
    assert (groq.tokens_in, groq.tokens_out, groq.measured) == (3, 4, True)


def test_anthropic_cache_tokens_are_counted_apart():
    start = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 7,
             "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 5}}  # fmt: skip
    end = measure(
        ANTHROPIC,
        [sse({"type": "message_start", "message": {"usage": start}},
             {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}})],
    )  # fmt: skip

    assert end == CallEnd(200, "stop", 3, 9, cache_read=50, cache_write=7, cache_write_1h=5)


@pytest.mark.parametrize(
    ("word", "stop"),
    [("stop", "stop"), ("tool_calls", "tool_use"), ("function_call", "tool_use"), ("length", "length"),
     ("content_filter", "error"), ("anything", "error")],
)  # fmt: skip
def test_chat_completions_stop_reasons_are_mapped(word, stop):
    assert openai_end({"prompt_tokens": 1}, word).stop_reason == stop


@pytest.mark.parametrize(
    ("word", "stop"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("tool_use", "tool_use"), ("max_tokens", "length"), ("refusal", "error")],
)  # fmt: skip
def test_anthropic_stop_reasons_are_mapped(word, stop):
    data = json.dumps(
        {"type": "message", "stop_reason": word, "usage": {"input_tokens": 1, "output_tokens": 1}}
    )

    assert measure(ANTHROPIC, [data.encode()], kind=JSON, stream=False).stop_reason == stop


def test_without_usage_the_estimate_is_rather_too_high():
    end = measure(OPENAI, [sse({"choices": [{"delta": {"content": "é" * 30}, "finish_reason": "stop"}]})])

    assert end == CallEnd(200, "stop", tokens_in=100, tokens_out=20, measured=False)


def test_many_small_pieces_are_at_least_a_token_each():
    piece = {"choices": [{"delta": {"content": "a"}}]}

    assert measure(OPENAI, [sse(*[piece] * 90)], aborted=True).tokens_out == 90


def test_a_running_usage_is_not_taken_for_the_final_one():
    running = {
        "choices": [{"delta": {"content": "a" * 300}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
    }

    end = measure(OPENAI, [sse(running)], aborted=True)

    assert (end.tokens_in, end.tokens_out, end.measured, end.stop_reason) == (9, 100, False, "aborted")


def test_an_error_in_the_middle_of_a_stream_is_an_error():
    assert measure(OPENAI, [sse({"error": {"message": "x"}})]).stop_reason == "error"
    assert measure(ANTHROPIC, [sse({"type": "error", "error": {}})]).stop_reason == "error"


def test_an_answer_in_an_encoding_it_cannot_read_is_estimated_from_its_size():
    packed = zlib.compress(STREAMS[OPENAI])

    end = measure(OPENAI, [packed])

    assert end.tokens_out == -(-len(packed) // 3)
    assert not end.measured


def test_an_event_of_many_megabytes_is_let_pass_and_not_kept():
    events = EventData(most=1000)
    for _ in range(50):
        assert events.feed(b"data: " + b"x" * 100_000) == []
    assert sum(map(len, events._line)) <= 1000
    assert events.feed(b"\n\ndata: {}\n\n") == [b"{}"]
    assert events.feed(b"data: " + b"y" * 600 + b"\ndata: " + b"y" * 600 + b"\n\ndata: z\n\n") == [b"z"]


def test_a_document_over_the_bound_is_estimated():
    meter = Meter(OPENAI, 30, most=1000)
    meter.begin(200, JSON, asked_stream=False)
    for _ in range(100):
        meter.feed(b"x" * 300)

    assert meter.end().tokens_out == 10_000
    assert sum(map(len, meter._document)) <= 1000


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ({"sent": False}, CallEnd(0, "error")),
        ({"sent": True}, CallEnd(0, "error", tokens_in=100, measured=False)),
        ({"aborted": True}, CallEnd(0, "aborted", tokens_in=100, measured=False)),
        ({"status": 429}, CallEnd(429, "error")),
        ({"status": 302}, CallEnd(302, "error")),
    ],
)
def test_no_answer_costs_what_may_have_been_done_and_a_refusal_nothing(how, end):
    assert measure(OPENAI, [], **{"status": 0, **how}) == end
