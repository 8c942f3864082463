"""A provider that says inside a stream, before any output, that it is overloaded: asked again, and nothing charged."""

import json

import pytest

from pidispatch.gateway.pressure import Pressure
from tests.attack.pressure.replies import said, stream, whole
from tests.gateway.parts import chat
from tests.support.scale import NIGHTLY

CHUNK = {"id": "c", "object": "chat.completion.chunk"}
ROLE = {**CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
MESSAGE_START = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 9}}}
CREATED = {"type": "response.created", "response": {"status": "in_progress", "output": []}}
TEXT = {**CHUNK, "choices": [{"index": 0, "delta": {"content": "half an ans"}}]}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
SLOW_DOWN = {**CHUNK, "error": {"code": 429, "message": "Rate limited upstream"}}

BUSY = {
    "Anthropic's event": (OVERLOADED,),
    "after a ping and the message's start": (
        MESSAGE_START,
        'event: ping\ndata: {"type": "ping"}',
        OVERLOADED,
    ),
    "a chunk": (SLOW_DOWN,),
    "a chunk after comments": (": OPENROUTER PROCESSING", ": OPENROUTER PROCESSING", SLOW_DOWN),
    "a chunk after who speaks": (
        ROLE,
        {**SLOW_DOWN, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]},
    ),
    "a word in place of a number": ({"error": {"type": "server_overloaded", "message": "x"}},),
    "a number as text": ({"error": {"code": "503", "message": "x"}},),
    "Responses, an error": (CREATED, {"type": "error", "code": "rate_limit_exceeded", "message": "x"}),
    "Responses, failed": (CREATED, {"type": "response.failed", "response": {"error": {"code": "slow_down"}}}),
}
KEPT = {
    "an overload after output": (ROLE, TEXT, OVERLOADED),
    "an account that has run dry": ({"error": {"code": "insufficient_quota", "message": "x"}},),
    "another fault": ({"type": "error", "error": {"type": "api_error", "message": "x"}},),
    "an overload with output in the same chunk": ({**TEXT, "error": {"code": 429}},),
    "an overload after an event nobody knows": ({"type": "surprise"}, OVERLOADED),
    "an overload after usage": ({**CHUNK, "choices": [], "usage": {"prompt_tokens": 5}}, OVERLOADED),
    "not JSON first": ("data: hello", OVERLOADED),
    "an overload after a thought": ({**CHUNK, "choices": [{"delta": {"reasoning": "hm"}}]}, OVERLOADED),
}  # fmt: skip


@pytest.fixture
def ask(make_house, replies):
    def make(*answers, hold=20.0, body=None):
        provider = replies(*answers)
        house = make_house(
            {"scripted": f"{provider.url}/v1"}, pressure=Pressure(hold_seconds=hold, chance=lambda: 0.0)
        )
        status, answer = house.client().ask("POST", "/v1/chat/completions", body or chat())
        return provider, house, status, answer

    return make


@pytest.mark.parametrize("name", BUSY)
def test_an_overload_before_any_output_is_asked_again_and_costs_nothing(ask, name):
    provider, house, status, answer = ask(stream(*BUSY[name]), stream(*said()))

    assert status == 200
    assert len(provider.asked) == 2
    assert b"hello" in answer
    assert b"error" not in answer
    [end] = house.ledger.settled()
    assert (end.tokens_in, end.tokens_out, end.measured) == (10, 2, True)


@pytest.mark.parametrize("name", KEPT)
def test_what_has_begun_or_will_not_heal_is_handed_on_once(ask, name):
    provider, _, status, answer = ask(stream(*KEPT[name]), stream(*said()))

    assert status == 200
    assert len(provider.asked) == 1
    assert b'hello"' not in answer


def test_when_it_goes_on_the_box_is_told_what_the_provider_said_as_a_status(ask):
    provider, house, status, answer = ask(stream(OVERLOADED), hold=0.5)

    assert (status, answer["error"]["type"]) == (529, "overloaded_error")
    [end] = house.ledger.settled()
    assert (end.status, end.tokens_in, end.tokens_out, end.measured) == (529, 0, 0, True)
    assert provider.asked


def test_an_error_in_place_of_a_whole_answer_is_asked_again(ask):
    good = {
        "choices": [{"message": {"content": "hi"}}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1},
    }
    provider, _, status, answer = ask(
        whole(200, {"error": {"code": 429, "message": "upstream"}}), whole(200, good), body=chat(stream=False)
    )

    assert (status, answer, len(provider.asked)) == (200, good, 2)


def test_a_stream_that_ends_before_it_says_anything_is_handed_on(ask):
    provider, _, status, answer = ask(stream(": nothing"))

    assert (status, answer, len(provider.asked)) == (200, b": nothing\n\n", 1)


def test_a_stream_that_breaks_before_it_says_anything_breaks(ask):
    with pytest.raises(Exception, match=r"IncompleteRead|closed|reset|[Rr]emote"):
        ask(stream(ROLE, ended=False))


@pytest.mark.skipif(not NIGHTLY, reason="nightly")
@pytest.mark.parametrize("before", range(0, 400, 40))
def test_many_comments_are_no_output(ask, before):
    provider, _, status, _ = ask(stream(*[": ping"] * before, OVERLOADED), stream(*said()))

    assert (status, len(provider.asked)) == (200, 2)


def test_the_events_before_output_reach_the_box_once_and_in_order(ask):
    _, _, status, answer = ask(stream(": one", ROLE, ": two", *said()))

    assert status == 200
    assert answer.startswith(b": one\n\ndata: " + json.dumps(ROLE).encode() + b"\n\n: two\n\n")
    assert answer.count(b"hello") == 1
