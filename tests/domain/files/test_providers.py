"""`providers.json`: what it says, and that no key may stand in it."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.files.checking import FileKind, check, kind_of
from pidispatch.domain.providers.providersfile import (
    KeyFrom,
    ModelFigures,
    ProviderEntries,
    ProviderEntry,
    parse_providers,
)
from pidispatch.errors import ConfigurationRefused

VLLM = {
    "api": "openai-completions",
    "baseUrl": "http://10.0.0.5:8000/v1/",
    "key": "env:VLLM_KEY",
    "slots": 2,
    "firstByteSeconds": 900,
    "mostTokensPerSecond": 300,
    "models": {"qwen3-coder": {"contextWindow": 131072, "maxTokens": 16384, "reasoning": False}},
}


def parse(**providers):
    return parse_providers(json.dumps({"version": 1, "providers": providers}).encode(), "providers.json")


def refused(**providers):
    with pytest.raises(ConfigurationRefused) as error:
        parse(**providers)
    return "\n".join(error.value.problems)


def test_everything_that_can_be_said_of_a_provider_is_read():
    found = parse(vllm=VLLM, groq={"slots": 4}, local={"baseUrl": "http://box/v1", "key": "none"})

    assert found.entries == {
        "vllm": ProviderEntry(
            api="openai-completions",
            base_url="http://10.0.0.5:8000/v1",
            key=KeyFrom(env="VLLM_KEY"),
            slots=2,
            first_byte=900,
            rate=300,
            models={"qwen3-coder": ModelFigures(131072, 16384, reasoning=False)},
        ),
        "groq": ProviderEntry(slots=4),
        "local": ProviderEntry(base_url="http://box/v1", key=KeyFrom()),
    }
    assert found.variables == {"VLLM_KEY"}
    assert parse(openai={"key": "pi"}).entries["openai"].key == KeyFrom(pi=True)


@pytest.mark.parametrize("key", ["sk-ant-very-secret", "env:sk-ant-very-secret", "$KEY", "!cat key", "", 7, ["env:A"]])  # fmt: skip
def test_a_key_in_the_file_is_refused_and_not_printed(key):
    problem = refused(groq={"key": key})

    assert problem.startswith('providers.json:1: providers."groq": key must be "env:NAME"')
    assert "very-secret" not in problem


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"api": "soap"}, "api must be one of openai-completions, openai-responses, anthropic-messages"),
        ({"baseUrl": "ftp://x"}, "baseUrl must be an http:// or https:// address"),
        ({"baseUrl": "https://ada:hidden@x/v1"}, "baseUrl must be"),
        ({"baseUrl": "https://x/v1?key=hidden"}, "baseUrl must be"),
        ({"baseUrl": "http://x:99999/"}, "baseUrl must be"),
        ({"slots": 0}, "slots must be an integer from 1 to 10000"),
        ({"slots": "2"}, "slots must be an integer"),
        ({"mostTokensPerSecond": 0}, "mostTokensPerSecond must be an integer from 1 to 1000000"),
        (
            {"slot": 2},
            "firstByteSeconds, mostTokensPerSecond, models",
        ),
        ({"models": {"m": {"contextWindow": 10, "maxTokens": 11}}}, "maxTokens must be no more than"),
        ({"models": {"m": {"reasoning": "yes"}}}, "reasoning must be true or false"),
        ({"models": {"a b": {}}}, "its name must be 1 to 200 visible ASCII characters"),
        ({"models": ["m"]}, "models must be an object"),
        ({"models": {"m": 5}}, 'models."m": must be an object'),
    ],
)
def test_each_fault_is_named_with_its_place_and_the_way_out(entry, said):
    problem = refused(groq=entry)

    assert said in problem
    assert 'providers.json:1: providers."groq"' in problem
    assert "hidden" not in problem


def test_a_provider_nobody_knows_needs_an_address():
    assert "is no provider that pidispatch knows, so it needs a baseUrl" in refused(mine={"slots": 1})


@pytest.mark.parametrize("name", ["", "Groq", "a b", "a/b", "x" * 65, "-a"])
def test_a_name_that_nothing_else_could_say_is_refused(name):
    assert "its name must be" in refused(**{name: {"baseUrl": "http://x"}})


def test_all_faults_are_told_at_once():
    assert len(refused(groq={"api": "x", "slots": 0}, zai={"key": "k"}).splitlines()) == 3


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"version": 2, "providers": {}}', b'{"version": 1}', b'{"version": 1, "providers": [], "x": 1}'])  # fmt: skip
def test_a_file_of_another_shape_is_refused(content):
    with pytest.raises(ConfigurationRefused, match=r"providers\.json"):
        parse_providers(content, "providers.json")


def test_the_file_is_known_by_its_name_and_by_its_content():
    content = json.dumps({"version": 1, "providers": {"vllm": VLLM}}).encode()

    assert kind_of("/x/providers.json", b"") is FileKind.PROVIDERS
    assert kind_of("/x/other.json", content) is FileKind.PROVIDERS
    assert check("/x/other.json", content).summary == "1 provider"


NAMES = [
    "version",
    "providers",
    "api",
    "baseUrl",
    "key",
    "slots",
    "models",
    "m",
    "contextWindow",
    "reasoning",
]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.just(1),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner),
        max_leaves=25,
    )
)
def test_no_file_makes_it_raise_anything_else(value):
    with contextlib.suppress(ConfigurationRefused):
        assert isinstance(parse_providers(json.dumps(value).encode(), "p"), ProviderEntries)
