"""What the meter reads from the Responses API."""

import json
from dataclasses import replace

import pytest

from pidispatch.domain.providers.calls import CallEnd
from pidispatch.domain.providers.rates import Doubt
from pidispatch.domain.providers.wireapis import RESPONSES
from tests.gateway.test_metering import AT_MOST, JSON, measure, sse

USED = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
    "output_tokens": 50,
    "output_tokens_details": {"reasoning_tokens": 20},
    "total_tokens": 150,
}


def ended(kind="completed", **more):
    status = {"status": kind, "output": [], "usage": USED, "error": None, "incomplete_details": None}
    return {"type": f"response.{kind}", "response": {**status, **more}}


def end_of(*events, **how):
    return measure(RESPONSES, [sse(*events)], **how)


def test_cached_written_and_reasoning_tokens_are_told_apart():
    assert end_of(ended()) == CallEnd(200, "stop", 60, 50, cache_read=30, cache_write=10, reasoning=20)


def test_reasoning_that_output_leaves_out_is_in_the_total():
    assert end_of(ended(usage={**USED, "total_tokens": 170})).tokens_out == 70


@pytest.mark.parametrize(
    ("event", "stop"),
    [
        (ended(), "stop"),
        (ended(output=[{"type": "message"}, {"type": "function_call"}]), "tool_use"),
        (ended(output=[{"type": "custom_tool_call"}]), "tool_use"),
        (ended("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (ended("incomplete", incomplete_details={"reason": "content_filter"}), "error"),
        (ended("failed", error={"code": "server_error"}), "error"),
        (ended("cancelled"), "error"),
        (ended(status="a new word"), "error"),
    ],
)
def test_how_a_response_ended_is_mapped(event, stop):
    assert (end_of(event).stop_reason, end_of(event).measured) == (stop, True)
    whole = json.dumps(event["response"]).encode()
    assert measure(RESPONSES, [whole], kind=JSON, stream=False).stop_reason == stop


def test_a_tool_call_is_known_where_the_last_event_repeats_nothing():
    called = {"type": "response.output_item.done", "item": {"type": "function_call", "arguments": "{}"}}

    assert end_of(called, ended()).stop_reason == "tool_use"


def test_a_stream_that_is_cut_is_what_it_held():
    text = {"type": "response.output_text.delta", "delta": "a" * 30}
    thought = {"type": "response.reasoning_summary_text.delta", "delta": "b" * 30}

    assert end_of(text, thought, aborted=True) == replace(AT_MOST, stop_reason="aborted")


def test_an_answer_that_was_put_off_is_not_taken_for_one_that_cost_nothing():
    queued = {"status": "queued", "output": [], "usage": None}

    end = measure(RESPONSES, [json.dumps(queued).encode()], kind=JSON, stream=False)

    assert end == replace(AT_MOST, stop_reason="error")


def test_a_failure_without_usage_is_what_it_held():
    end = end_of({"type": "response.output_text.delta", "delta": "a" * 30}, ended("failed", usage=None))

    assert end == replace(AT_MOST, stop_reason="error")


@pytest.mark.parametrize("calls", [{"type": "function_call", "arguments": "{}"}])
def test_a_tool_call_that_cost_no_token_is_no_measurement(calls):
    nothing = {**USED, "output_tokens": 0, "total_tokens": 100}

    assert end_of(ended(output=[calls], usage=nothing)).doubt is Doubt.OUTPUT_TOO_SMALL


def test_an_error_event_is_an_error():
    assert end_of({"type": "error", "code": "rate_limit_exceeded", "message": "x"}).stop_reason == "error"


@pytest.mark.parametrize("odd", [[], {}, 5, None, "x", [[]], {"type": []}])
def test_odd_values_in_any_place_are_let_pass(odd):
    for event in (
        {"type": odd},
        {"type": "response.completed", "response": odd},
        {"type": "response.output_item.done", "item": {"type": odd}},
        ended(status=odd, usage=odd, output=odd, incomplete_details=odd),
        {"type": "response.output_text.delta", "delta": odd},
    ):
        assert end_of(event).status == 200
