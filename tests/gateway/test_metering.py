"""What the meter reads from answers, however they are cut or broken."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pidispatch.domain.providers.calls import CallEnd
from pidispatch.domain.providers.rates import Doubt
from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.entrypoints.scripted import SCENARIOS, usage_of, wire, wire_responses
from pidispatch.gateway.calls.metering import Meter, Most
from pidispatch.gateway.calls.sse import EventData

MESSAGE = SCENARIOS["happy"].steps[0]
USAGE = usage_of(1, len(MESSAGE.parts))
STREAMS = {
    OPENAI: b"".join(wire.openai_stream("m", MESSAGE, USAGE, "t", with_usage=True)),
    ANTHROPIC: b"".join(wire.anthropic_stream("m", MESSAGE, USAGE, "t")),
    RESPONSES: b"".join(wire_responses.responses_stream("m", MESSAGE, USAGE, "t")),
}
MEASURED = CallEnd(200, "tool_use", USAGE.tokens_in, USAGE.tokens_out, USAGE.cache_read)
SSE, JSON = "text/event-stream; charset=utf-8", "application/json"


MOST = Most(tokens_in=300, tokens_out=4_000)
AT_MOST = CallEnd(200, "stop", tokens_in=300, tokens_out=4_000, measured=False)


def measure(api, pieces, *, kind=SSE, stream=True, most=MOST, status=200, whole=True, **how):
    meter = Meter(api, most)
    meter.begin(status, kind, asked_stream=stream)
    for piece in pieces:
        meter.feed(piece)
    if whole and not how.get("aborted"):
        meter.finish()
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
def test_a_stream_that_ends_early_is_the_whole_hold_until_its_last_word(at, api):
    end = measure(api, [STREAMS[api][:at]], aborted=True)

    check_sound(end)
    if not end.measured:
        assert end.stop_reason in {"aborted", "tool_use"}
        assert (end.tokens_in, end.tokens_out) == (300, 4_000)


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
    assert openai_end({"prompt_tokens": 1, "completion_tokens": 1}, word).stop_reason == stop


@pytest.mark.parametrize(
    ("word", "stop"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("tool_use", "tool_use"), ("max_tokens", "length"), ("refusal", "error")],
)  # fmt: skip
def test_anthropic_stop_reasons_are_mapped(word, stop):
    data = json.dumps(
        {"type": "message", "stop_reason": word, "usage": {"input_tokens": 1, "output_tokens": 1}}
    )

    assert measure(ANTHROPIC, [data.encode()], kind=JSON, stream=False).stop_reason == stop


def test_without_usage_a_call_is_what_it_held():
    end = measure(OPENAI, [sse({"choices": [{"delta": {"content": "é" * 30}, "finish_reason": "stop"}]})])

    assert end == AT_MOST


def test_a_running_usage_is_not_taken_for_the_final_one():
    running = {
        "choices": [{"delta": {"content": "a" * 300}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
    }

    end = measure(OPENAI, [sse(running)], aborted=True)

    assert end == replace(AT_MOST, stop_reason="aborted")


def test_a_running_usage_is_not_final_because_one_of_two_answers_is():
    events = sse(
        {"choices": [{"index": 0, "delta": {"content": "a"}}], "usage": {"prompt_tokens": 9, "completion_tokens": 1}},
        {"choices": [{"index": 0, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}},
    )  # fmt: skip
    other = sse(
        {
            "choices": [{"index": 1, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 7},
        }
    )

    assert measure(OPENAI, [events], most=replace(MOST, choices=2), aborted=True) == AT_MOST
    assert measure(OPENAI, [events, other], most=replace(MOST, choices=2), aborted=True).tokens_out == 7


def test_a_usage_before_the_end_is_final_only_in_an_answer_that_came_whole():
    text = {"choices": [{"delta": {"content": "a"}}]}
    usage = {"choices": [{"delta": {}}], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}
    stop = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None}

    assert measure(OPENAI, [sse(text, usage, stop)]) == CallEnd(200, "stop", 9, 5)
    assert measure(OPENAI, [sse(text, usage, stop)], whole=False) == AT_MOST
    assert measure(OPENAI, [sse(usage, text, stop)]) == AT_MOST


def test_an_error_in_the_middle_of_a_stream_is_an_error():
    assert measure(OPENAI, [sse({"error": {"message": "x"}})]).stop_reason == "error"
    assert measure(ANTHROPIC, [sse({"type": "error", "error": {}})]).stop_reason == "error"


def test_an_event_of_many_megabytes_is_let_pass_and_not_kept():
    events = EventData(most=1000)
    for _ in range(50):
        assert events.feed(b"data: " + b"x" * 100_000) == []
    assert sum(map(len, events._line)) <= 1000
    assert events.feed(b"\n\ndata: {}\n\n") == [b"{}"]
    assert events.feed(b"data: " + b"y" * 600 + b"\ndata: " + b"y" * 600 + b"\n\ndata: z\n\n") == [b"z"]


def test_a_document_over_the_bound_is_what_it_held():
    meter = Meter(OPENAI, MOST, most_document=1000)
    meter.begin(200, JSON, asked_stream=False)
    for _ in range(100):
        meter.feed(b"x" * 300)

    assert meter.end() == replace(AT_MOST, stop_reason="error")
    assert sum(map(len, meter._document)) <= 1000


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_last_event_without_its_empty_line_is_read(end):
    last = b'data: {"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":5}}'

    assert measure(OPENAI, [last + end]) == CallEnd(200, "stop", 9, 5)


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ({"sent": False}, CallEnd(0, "error")),
        ({"sent": True}, replace(AT_MOST, status=0, stop_reason="error")),
        ({"aborted": True}, replace(AT_MOST, status=0, stop_reason="aborted")),
        ({"status": 429}, CallEnd(429, "error")),
        ({"status": 302}, CallEnd(302, "error")),
        ({"status": 504}, replace(AT_MOST, status=504, stop_reason="error")),
        ({"status": 524}, replace(AT_MOST, status=524, stop_reason="error")),
        ({"status": 999}, replace(AT_MOST, status=999, stop_reason="error")),
    ],
)
def test_no_answer_costs_what_may_have_been_done_and_a_refusal_nothing(how, end):
    assert measure(OPENAI, [], **{"status": 0, **how}) == end


def cut(api, events, *, after=30.0, **most):
    now = [0.0]
    meter = Meter(api, replace(MOST, **most), clock=lambda: now[0])
    meter.sending()
    meter.begin(200, SSE, asked_stream=True)
    meter.feed(sse(*events))
    now[0] = after
    return meter.end(aborted=True)


START = {"type": "message_start", "message": {"usage": {"input_tokens": 40, "cache_read_input_tokens": 50, "output_tokens": 1}}}  # fmt: skip


def test_input_that_the_beginning_tells_bounds_a_cut_answer():
    told = cut(ANTHROPIC, [START], tells_input=True)

    assert (told.tokens_in, told.cache_read, told.tokens_out) == (40, 50, 4_000)
    assert (told.measured, told.input_told) == (False, True)
    assert cut(ANTHROPIC, [START]) == replace(AT_MOST, stop_reason="aborted")
    assert cut(ANTHROPIC, [START], tells_input=True, text_bytes=50_000).tokens_in == 300
    assert cut(ANTHROPIC, [], tells_input=True).tokens_in == 300


def test_the_fastest_rate_times_the_whole_time_bounds_a_cut_answer():
    text = {"choices": [{"delta": {"content": "a"}}]}

    assert cut(OPENAI, [text], after=30.0, rate=100).tokens_out == 3_000
    assert cut(OPENAI, [text], after=0.001, rate=100).tokens_out == 1
    assert cut(OPENAI, [text], after=30.0, rate=100, choices=2).tokens_out == 4_000
    assert cut(OPENAI, [text], after=30.0).tokens_out == 4_000


def test_a_report_that_was_seen_is_less_than_nothing_later_says():
    running = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3_500}}

    assert cut(OPENAI, [running], after=1.0, rate=10).tokens_out == 3_500


@pytest.mark.parametrize(
    ("usage", "doubt"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0}, Doubt.INPUT_TOO_SMALL),
        ({"prompt_tokens": 9, "completion_tokens": 3}, Doubt.INPUT_TOO_SMALL),
        ({"prompt_tokens": 900, "completion_tokens": 0}, Doubt.OUTPUT_TOO_SMALL),
        ({"prompt_tokens": 900, "completion_tokens": 9}, Doubt.OUTPUT_TOO_SMALL),
        ({"prompt_tokens": 2_000_000, "completion_tokens": 900}, Doubt.ABOVE_THE_WINDOW),
        ({"prompt_tokens": 900, "completion_tokens": 2_000_000}, Doubt.ABOVE_THE_WINDOW),
        ({"prompt_tokens": 900, "completion_tokens": 900}, None),
        ({"prompt_tokens": 190_000, "completion_tokens": 900}, None),
    ],
)
def test_a_usage_that_cannot_be_true_is_no_measurement(usage, doubt):
    text = {"choices": [{"delta": {"content": "some words " * 400}, "finish_reason": "stop"}]}
    most = Most(tokens_in=30_000, tokens_out=4_000, text_bytes=28_000, window=200_000)

    end = measure(OPENAI, [sse(text, {"choices": [], "usage": usage})], most=most)

    assert end.doubt is doubt
    assert end.measured is (doubt is None)
    if doubt is not None:
        assert (end.tokens_in, end.tokens_out) == (30_000, 4_000)


def test_an_answer_without_text_may_have_used_no_tokens():
    assert openai_end({"prompt_tokens": 9, "completion_tokens": 0}, "content_filter") == CallEnd(
        200, "error", 9
    )
