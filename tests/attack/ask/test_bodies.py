"""1,226 odd requests: none that goes out may cost more than it holds, or leads to anything beyond its own bytes."""

import json
import random
import re
from typing import Any

import pytest

from pidispatch.domain.providers.rates import Price, Rates, Rating
from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES
from tests.attack.ask.bodies import bodies
from tests.gateway.fakes import FakeCaps
from tests.gateway.parts import KEY, UnixClient

PRICE = Price(Rating.PRICED, ((0, Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000, 100)),), "test")
APIS = {"anthropic": ANTHROPIC, "scripted": OPENAI, "openrouter": OPENAI, "openai": RESPONSES}
PATHS = {ANTHROPIC: "/v1/messages", OPENAI: "/v1/chat/completions", RESPONSES: "/v1/responses"}
CASES = [(provider, name, body) for provider, api in APIS.items() for name, body in bodies(api, "m")]
ONE_IN = 6

# Who is strict about the odd must not be deaf to the plain.
SURELY_PASS = re.compile(
    r"plain|no limit|escaped model alone|followed by ' .*|after ' .*|service_tier=\"(auto|default|flex)\"|stream=None"
    r"|max_(output_)?tokens=(1|50000)|metadata=.*|background=(false|null)|user=x+|response_format=.*|store=true"
    r"|tool \{\"type\": \"custom\".*|part \{\"type\": \"(input_text|tool_use).*|part .*(base64,AAAA|image/png).*"
    r"|item \{\"type\": \"(function_call|function_call_output)\", .*(\"arguments\"|\"output\": \"x\").*"
)
OF_ONE_API = re.compile(r"(max|user|response_format|store|service_tier|background|part|tool|metadata|item).*")
# Every word that may stand as `type` in what goes out: none is run, kept or fetched by a provider.
TYPES = {
    "text", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result", "search_result", "base64", "content",
    "custom", "function", "object", "json_object", "json_schema", "ephemeral", "enabled", "disabled", "adaptive", "refusal",
    "image_url", "file", "input_audio", "message", "function_call", "function_call_output", "custom_tool_call", "reasoning",
    "additional_tools", "input_text", "output_text", "input_image", "input_file", "compact_20260112",
}  # fmt: skip
LEADS_AWAY = {
    "url", "file_id", "file_url", "server_url", "mcp_servers", "container", "web_search_options", "previous_response_id",
    "conversation", "prompt", "thread", "vector_store_ids", "plugins", "models", "route", "transforms", "api_base", "documents",
    "search_parameters", "extra_body", "fallbacks_url", "tool_resources", "betas", "anthropic_beta",
}  # fmt: skip
OF_THE_AGENT = {"input", "arguments", "parameters", "input_schema", "data"}


class OnePrice:
    def find(self, provider, model):
        return PRICE


def leads_away(value: Any, name: str = "") -> str | None:
    """The first thing in a request that is not its own bytes, found in another way than the gateway does."""
    if isinstance(value, dict):
        for key, inner in value.items():
            data = isinstance(inner, str) and inner.startswith("data:")
            if key in LEADS_AWAY and inner not in (None, False, [], {}) and not data:
                return key
            if key == "type" and inner not in TYPES:
                return f"type {inner!r}"
            if key not in OF_THE_AGENT and (found := leads_away(inner, key)) is not None:
                return found
        if name == "input" and "content" not in value and set(value) <= {"id", "type", "role", "status"}:
            return "a reference"
    if isinstance(value, list):
        return next((found for each in value if (found := leads_away(each, name)) is not None), None)
    is_address = isinstance(value, str) and re.match(r"\s*(https?|file|ftp|gs|s3):", value, re.IGNORECASE)
    return value if is_address else None


@pytest.fixture
def chosen(is_nightly):
    """All of them at night, else one in six with all that must pass."""
    dice = random.Random(11)
    return [
        case for case in CASES if is_nightly or SURELY_PASS.fullmatch(case[1]) or dice.randrange(ONE_IN) == 0
    ]


@pytest.fixture
def ask(make_house, recorder):
    """Send one body for a run with these caps: the status, and what the provider heard of it."""
    names = {name: recorder.url + ("" if api == ANTHROPIC else "/v1") for name, api in APIS.items()}
    keys = {f"{name.upper()}_API_KEY": KEY for name in APIS}
    house = make_house(names, keys, prices=OnePrice())
    clients = {name: UnixClient(house.open(number, name)) for number, name in enumerate(APIS, 7)}
    house.clients.extend(clients.values())

    def one(provider, body, caps):
        for run in house.tickets.runs.values():
            run.caps = caps
        before = len(recorder.heard)
        status, answer = clients[provider].ask("POST", PATHS[APIS[provider]], body)
        return status, answer, recorder.heard[before:]

    one.house = house
    return one


def test_there_are_as_many_as_were_tried():
    assert len(CASES) == 1226


def test_under_a_cap_none_costs_more_than_it_holds(ask, chosen):
    passed = set()
    for provider, name, body in chosen:
        status, answer, heard = ask(provider, body, FakeCaps(cost_cap_micros=10**14))

        assert status in {200, 400, 402}, (provider, name, answer)
        assert len(heard) == (status == 200), (provider, name)
        if status == 200:
            passed.add((provider, name))
            call = ask.house.ledger.calls[-1]
            assert call.held_tokens >= heard[0].billed, (provider, name)
            assert leads_away(_read(heard[0].body)) is None, (provider, name)
    _check_plain_ones(passed, chosen)


def test_without_a_cap_none_leads_away(ask, chosen):
    passed = set()
    for provider, name, body in chosen:
        status, answer, heard = ask(provider, body, FakeCaps())

        assert status in {200, 400, 403}, (provider, name, answer)
        assert len(heard) == (status == 200), (provider, name)
        if status == 200:
            passed.add((provider, name))
            assert leads_away(_read(heard[0].body)) is None, (provider, name)
        else:
            assert answer["error"]["message"].startswith("pidispatch: "), (provider, name)
    _check_plain_ones(passed, chosen)


def _read(body: bytes) -> Any:
    """What some server may still make of it."""
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except ValueError:
        return None


def _check_plain_ones(passed, chosen):
    for provider, name, _ in chosen:
        if SURELY_PASS.fullmatch(name) and not OF_ONE_API.fullmatch(name):
            assert (provider, name) in passed, (provider, name)
    for pattern in (
        r"part .*image/png.*",
        r"item .*function_call\".*",
        r"response_format.*",
        r"store=true",
        r"tool .*custom.*",
    ):
        assert any(re.fullmatch(pattern, name) for _, name in passed), pattern
