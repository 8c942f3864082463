"""An agent that hangs up before it is told the usage has nothing for nothing: not tokens, not dollars, not turns."""

import json
import socket
import threading

import pytest

from pidispatch.domain.providers.rates import CostClass
from tests.attack.meter.test_answers import OnePrice
from tests.gateway.fakes import FakeCaps
from tests.gateway.parts import KEY, ManualUpstream, UnixClient, chat, raw_client
from tests.support.patience import until

CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
START = b'data: {"type":"message_start","message":{"usage":{"input_tokens":100,"cache_read_input_tokens":800,"output_tokens":1}}}\n\n'  # fmt: skip
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
SAID = b'data: {"choices":[{"index":0,"delta":{"content":"so"}}]}\n\n'  # before it nothing is passed on


@pytest.fixture
def house(make_house, manual):
    return make_house(
        {"scripted": manual.url, "anthropic": manual.url},
        keys={"SCRIPTED_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY},
        prices=OnePrice(),
    )


def begin(house, manual, provider, asked, *, events=(), **caps):
    """A call whose answer has begun with these events, and then thinks without a word."""
    sock = raw_client(house.open(provider=provider))
    house.tickets.runs[7].caps = FakeCaps(**caps)
    body = json.dumps(asked).encode()
    path = b"/v1/messages" if provider == "anthropic" else b"/v1/chat/completions"
    sock.sendall(b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (path, len(body), body))
    manual.read_request()
    if events:
        manual.send(CHUNKED)
        for event in events:
            manual.chunk(event)
        while events[-1].strip() not in (got := sock.recv(65536)):
            assert got
    return sock


def test_hidden_thinking_that_the_client_cuts_counts_all_that_it_may_have_come_to(house, manual):
    asked = chat("m", max_tokens=32_000, thinking={"type": "enabled", "budget_tokens": 30_000})
    begin(house, manual, "anthropic", asked, events=[START], cost_cap_micros=10**8).close()

    [end] = house.ledger.settled()
    [call] = house.ledger.calls
    assert (call.state, end.stop_reason, end.input_told) == ("assumed", "aborted", True)
    assert (end.tokens_in, end.cache_read, end.tokens_out) == (100, 800, 32_000)
    assert call.micros == 100 + 80 + 64_000  # of the dearer input that was held, only what was told
    assert call.cost.cost_class is CostClass.ASSUMED


def test_dense_text_counts_a_token_for_each_of_its_bytes(house, manual):
    asked = chat("m", max_tokens=10)
    asked["messages"][0]["content"] = "aA1!" * 25_000
    begin(house, manual, "scripted", asked, events=[ROLE, SAID], cost_cap_micros=10**8).close()

    [end] = house.ledger.settled()
    [call] = house.ledger.calls
    assert end.tokens_in >= 100_000
    assert call.micros == call.held_micros


def test_an_answer_that_never_comes_counts_the_hold(house, manual):
    sock = begin(house, manual, "scripted", chat("m", stream=False, max_tokens=64_000), cost_cap_micros=10**8)

    manual.close()  # as a time-out would, on this side

    assert b" 502 " in sock.recv(65536)
    house.ledger.settled()
    [call] = house.ledger.calls
    assert (call.state, call.micros) == ("assumed", call.held_micros)
    sock.close()


def test_a_client_that_only_half_closes_has_hung_up_too(house, manual):
    sock = begin(
        house, manual, "scripted", chat("m", max_tokens=500), events=[ROLE, SAID], cost_cap_micros=10**8
    )

    sock.shutdown(socket.SHUT_WR)

    house.ledger.settled()
    [call] = house.ledger.calls
    assert (call.state, call.micros) == ("assumed", call.held_micros)
    sock.close()


def test_a_call_that_never_reached_its_provider_is_no_turn(make_house):
    nobody = ManualUpstream()
    nobody.close()
    house = make_house({"scripted": nobody.url}, prices=OnePrice())
    client = UnixClient(house.open())
    house.tickets.runs[7].caps = FakeCaps(max_turns=3, cost_cap_micros=10**9)

    statuses = [client.ask("POST", "/v1/chat/completions", chat("m", max_tokens=100))[0] for _ in range(5)]

    assert statuses == [502] * 5
    house.ledger.settled(5)
    assert (house.ledger.budget(7).turns, house.ledger.budget(7).micros) == (0, 0)
    client.close()


def test_three_calls_that_are_hung_up_on_use_up_three_turns(make_house, scripted):
    never = threading.Event()
    scripted.pace = lambda number: never.wait(20) or None
    house = make_house({"scripted": f"{scripted.url}/v1"}, prices=OnePrice())
    path = house.open()
    house.tickets.runs[7].caps = FakeCaps(max_turns=3, cost_cap_micros=10**9)

    for number in range(1, 4):
        sock = raw_client(path)
        body = json.dumps(chat("happy", max_tokens=100)).encode()
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))  # fmt: skip
        until(lambda so_far=number: len(scripted.asked) == so_far)
        sock.close()
        house.ledger.settled(number)
    client = UnixClient(path)

    assert [client.ask("POST", "/v1/chat/completions", chat("happy"))[0] for _ in range(9)] == [402] * 9
    assert house.tickets.runs[7].refused == ["turn-cap"] * 9
    assert house.ledger.budget(7).turns == 3
    assert len(house.ledger.calls) == 3
    never.set()
    client.close()
