"""A run with a cap never passes it, whatever it sends, and is told why it may not go on."""

import json
import random
import re
import threading

import pytest

from pidispatch.domain.rates import Price, Rates, Rating, Tokens
from pidispatch.domain.wireapis import WIRE_APIS
from pidispatch.domain.words import Use, words_of
from pidispatch.gateway.denial import denial
from pidispatch.ports import NOTHING_KNOWN
from tests.gateway.fakes import FakeCaps
from tests.gateway.greedy import GreedyProvider
from tests.gateway.parts import UnixClient, chat, raw_client, read_until, responses

PATHS = {"scripted": "/v1/chat/completions", "openai": "/v1/responses", "anthropic": "/v1/messages"}
BODIES = {"scripted": chat, "openai": responses, "anthropic": chat}
LIMITS = {
    "scripted": ["max_tokens", "max_completion_tokens"],
    "openai": ["max_output_tokens"],
    "anthropic": ["max_tokens"],
}
LOW, HIGH = Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000, 100), Rates(6_000_000, 22_500_000, 600_000, 7_500_000, 12_000_000, 100)  # fmt: skip
PRICE = Price(Rating.PRICED, ((0, LOW), (20_000, HIGH)), "test 1")


class OnePrice:
    """All models but one cost the same."""

    def find(self, provider, model):
        return None if model == "unpriced" else PRICE


@pytest.fixture(params=[1, 2, 3])
def seed(request):
    return request.param


@pytest.fixture
def greedy(seed):
    with GreedyProvider(PRICE, seed) as provider:
        yield provider


def a_house(make_house, greedy, **caps):
    house = make_house(
        {"scripted": f"{greedy.url}/v1", "openai": f"{greedy.url}/v1", "anthropic": greedy.url},
        prices=OnePrice(),
    )
    house.caps = FakeCaps(**caps)
    return house


def a_client(house, provider="scripted"):
    client = house.client(provider=provider)
    house.tickets.runs[7].caps = house.caps
    return client


def a_request(dice, history, provider):
    if dice.random() < 0.3:
        del history[dice.randint(0, len(history)) :]
    text = dice.choice(["a", "é", "🙂", "\\", '"', "\n"]) * dice.randint(1, 6_000)
    content = [{"type": "input_text" if provider == "openai" else "text", "text": text}]
    if dice.random() < 0.3:
        content[0]["cache_control"] = {"type": "ephemeral"}
    history.append({"role": "user", "content": dice.choice([text, content])})
    name = "input" if provider == "openai" else "messages"
    asked = {"model": "m", "stream": dice.random() < 0.5, name: list(history)}
    for name in LIMITS[provider]:
        if dice.random() < 0.7:
            asked[name] = dice.choice([1, 500, 5_000, 60_000, 10**9])
    if provider == "scripted" and dice.random() < 0.2:
        asked["n"] = dice.randint(1, 5)
    if dice.random() < 0.1:
        asked[dice.choice(["surprise", "container", "model_"])] = "x"
    return json.dumps(asked, ensure_ascii=dice.random() < 0.5).encode()


@pytest.mark.parametrize("provider", PATHS)
@pytest.mark.parametrize("caps", [{"cost_cap_micros": 900_000}, {"max_tokens": 120_000}, {"cost_cap_micros": 500_000, "max_tokens": 40_000}])  # fmt: skip
def test_calls_side_by_side_never_cost_more_than_the_cap(make_house, greedy, seed, provider, caps):
    house = a_house(make_house, greedy, **caps)
    a_client(house, provider)
    path = house.run_dir / "g" / "7" / "s"
    statuses = []

    def agent(number):
        dice, history, client = random.Random(seed * 100 + number), [], UnixClient(path)
        asked = (a_request(dice, history, provider) for _ in range(25))
        statuses.extend(client.ask("POST", PATHS[provider], body)[0] for body in asked)
        client.close()

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(statuses) == {200, 402}
    assert len(greedy.asked) == statuses.count(200)
    if "cost_cap_micros" in caps:
        assert greedy.micros <= caps["cost_cap_micros"]
    if "max_tokens" in caps:
        assert greedy.tokens <= caps["max_tokens"]
    house.ledger.settled(statuses.count(200))
    budget = house.ledger.budget(7)
    assert (budget.micros, budget.tokens) == (greedy.micros, greedy.tokens)


@pytest.mark.parametrize("provider", PATHS)
def test_the_last_call_is_asked_for_a_shorter_answer_and_nothing_else_changes(make_house, greedy, provider):
    house = a_house(make_house, greedy, cost_cap_micros=100_000)
    name = LIMITS[provider][0]
    asked = BODIES[provider]("m", stream=False, temperature=0.5, **{name: 60_000, "max_tokens": 60_000})
    if provider == "openai":
        del asked["max_tokens"]

    assert a_client(house, provider).ask("POST", PATHS[provider], asked)[0] == 200

    [heard] = greedy.asked
    limits = {heard.pop(name) for name in LIMITS[provider] if name in heard}
    assert len(limits) == 1
    assert 1_024 < limits.pop() < 6_666
    assert heard == {name: text for name, text in asked.items() if name not in LIMITS[provider]}
    assert 80_000 < greedy.micros <= 100_000


def test_without_a_cap_the_body_goes_out_as_it_came(make_house, greedy):
    house = a_house(make_house, greedy)
    asked = chat("unpriced", stream=False, seed=1, n=2)

    assert a_client(house).ask("POST", PATHS["scripted"], asked)[0] == 200

    assert greedy.asked == [asked]


@pytest.mark.parametrize(
    ("caps", "more", "reason", "named"),
    [
        ({"cost_cap_micros": 1_000}, {}, "cost-cap", "grant"),
        ({"max_tokens": 1_000}, {}, "token-cap", "grant"),
        ({"max_turns": 0}, {}, "turn-cap", "grant"),
        ({"allowed_models": ["scripted/other"]}, {}, "model-not-allowed", "allowed"),
        ({"allowed_models": ["scripted/other"]}, {"model": "other", "models": ["m"]}, "model-policy-unenforceable", "models"),
        ({"cost_cap_micros": 10**9}, {"model": "unpriced"}, "cost-cap-unenforceable", "price"),
        ({"cost_cap_micros": 10**9}, {"surprise": 1}, "cost-cap-unenforceable", "surprise"),
        ({"max_tokens": 10**6}, {"tools": [{"type": "web_search_1"}]}, "token-cap", "web_search_1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("provider", PATHS)
def test_a_refused_call_is_a_402_that_says_why_and_goes_nowhere(
    make_house, greedy, provider, caps, more, reason, named
):
    caps = {name: [f"{provider}/other"] if name == "allowed_models" else cap for name, cap in caps.items()}
    house = a_house(make_house, greedy, **caps)

    status, answer = a_client(house, provider).ask(
        "POST", PATHS[provider], BODIES[provider](**{"model": "m", **more})
    )

    assert status == 402
    assert answer["error"]["type"] == "budget_exceeded"
    assert f"({reason})" in answer["error"]["message"]
    assert named in answer["error"]["message"]
    assert answer.get("type") == ("error" if provider == "anthropic" else None)
    assert greedy.asked == []
    assert house.tickets.runs[7].refused == [reason]


# From pi 1.6.0: what makes it ask again.
AGAIN = re.compile(
    r"overloaded|server_busy|rate.?limit|too many requests|(?<![a-z0-9])(?:429|500|502|503|504|520|524)(?![a-z0-9])|"
    r"service.?(?:is.?)?(?:temporarily.?)?unavailable|server.?error|internal.?error|network.?error|timed? out|timeout|"
    r"terminated|retry|connection.?(?:error|refused|lost|closed)|fetch failed|ended without",
    re.IGNORECASE,
)


@pytest.mark.parametrize("reason", [*words_of(Use.CALL), "anything"])
@pytest.mark.parametrize("api", WIRE_APIS)
def test_no_refusal_has_words_on_which_pi_would_ask_again(api, reason):
    message = denial(api, reason, "tools")["error"]["message"]

    assert not AGAIN.search(message)
    assert reason in message


def test_what_the_provider_counted_makes_room_for_the_next_call(make_house, greedy):
    """By its bytes alone the second request would not fit any more."""
    house = a_house(make_house, greedy, cost_cap_micros=300_000)
    client = a_client(house, "anthropic")
    first = chat("m", stream=False, max_tokens=1_000)
    first["messages"][0]["content"] = "x" * 25_000
    second = {**first, "messages": [*first["messages"], {"role": "user", "content": "more"}]}

    statuses = [client.ask("POST", PATHS["anthropic"], asked)[0] for asked in (first, second)]

    assert statuses[0] == 200
    assert greedy.micros <= 300_000
    held = [call.held_tokens for call in house.ledger.calls]
    if greedy._seed % 4:
        assert statuses[1] == 200
        assert held[1] < held[0]


def test_a_client_that_leaves_before_the_answer_is_not_given_it_for_nothing(make_house, manual):
    house = make_house({"scripted": manual.url}, prices=OnePrice())
    sock = raw_client(house.open())
    house.tickets.runs[7].caps = FakeCaps(cost_cap_micros=10**7)
    body = json.dumps(chat("m", stream=False, max_tokens=300)).encode()
    sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))  # fmt: skip
    manual.read_request()
    threading.Event().wait(0.4)

    sock.close()

    [end] = house.ledger.settled()
    assert (end.status, end.stop_reason, end.measured, end.tokens_out) == (0, "aborted", False, 300)
    [call] = house.ledger.calls
    assert call.cost.micros <= call.held_micros


def test_nothing_is_held_for_what_is_no_request(make_house, greedy):
    house = a_house(make_house, greedy, cost_cap_micros=1)
    client = a_client(house)

    assert client.ask("POST", PATHS["scripted"], b"{")[0] == 400
    assert house.ledger.calls == []
    assert NOTHING_KNOWN.micros is None


def test_a_streams_bytes_are_the_providers_under_a_cap_too(make_house, scripted):
    house = make_house({"scripted": f"{scripted.url}/v1"}, prices=OnePrice())
    path = house.open()
    house.tickets.runs[7].caps = FakeCaps(cost_cap_micros=10**6)
    sock = raw_client(path)
    body = json.dumps(chat("happy")).encode()
    sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))  # fmt: skip

    assert b"[DONE]" in read_until(sock, b"0\r\n\r\n")
    [asked] = scripted.asked
    assert asked.body["max_tokens"] == 32_768
    house.ledger.settled()
    [call] = house.ledger.calls
    assert call.cost.micros == PRICE.cost(_tokens(asked.usage))
    sock.close()


def _tokens(usage):
    return Tokens(fresh=usage.tokens_in, out=usage.tokens_out, cache_read=usage.cache_read)
