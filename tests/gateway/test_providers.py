"""The table of providers and what an installation may change of it."""

import pytest

from pidispatch.errors import ConfigurationRefused
from pidispatch.gateway.metering import ANTHROPIC, OPENAI
from pidispatch.gateway.providers import KNOWN, Providers, key_names


class Hidden:
    def get_secret_value(self) -> str:
        return "sk-hidden"


def test_each_api_has_its_path_and_its_way_to_carry_the_key():
    providers = Providers(keys={"ANTHROPIC_API_KEY": Hidden(), "GROQ_API_KEY": "g"})

    anthropic, groq = providers.find("anthropic"), providers.find("groq")

    assert anthropic.url == "https://api.anthropic.com/v1/messages"
    assert anthropic.credentials() == (("x-api-key", "sk-hidden"),)
    assert groq.url == "https://api.groq.com/openai/v1/chat/completions"
    assert groq.credentials() == (("authorization", "Bearer g"),)


def test_a_key_shows_in_no_repr():
    assert "sk-hidden" not in repr(Providers(keys={"ANTHROPIC_API_KEY": Hidden()}).find("anthropic"))


def test_an_upstream_replaces_the_address_and_makes_new_providers():
    providers = Providers(
        keys={},
        upstreams={"groq": "http://10.0.0.1/v1/", "mine-2": "http://[::1]:8/x"},
        apis={"mine-2": ANTHROPIC},
    )

    assert providers.find("groq").url == "http://10.0.0.1/v1/chat/completions"
    assert providers.find("mine-2").url == "http://[::1]:8/x/v1/messages"
    assert not providers.facts("groq").credential
    assert providers.facts("mine-2").credential
    assert providers.find("mine-2").credentials() == ()
    assert key_names("mine-2") == ("MINE_2_API_KEY",)


def test_pi_does_not_know_a_provider_under_another_api():
    providers = Providers(keys={}, apis={"groq": ANTHROPIC})

    assert not providers.facts("groq").known_to_pi


def test_every_fault_is_named_at_once():
    upstreams = {
        "a": "ftp://x",
        "b": "http://",
        "c": "http://u:p@x",
        "d": "http://x:99999",
        "e": "http://x?q=1",
    }

    with pytest.raises(ConfigurationRefused) as refusal:
        Providers(keys={}, upstreams=upstreams, apis={"f": "responses"})

    assert len(refusal.value.problems) == 6
    assert "p@x" not in str(refusal.value)


def test_every_known_provider_speaks_one_of_the_two_apis_over_tls():
    assert {known.api for known in KNOWN.values()} == {OPENAI, ANTHROPIC}
    assert all(known.base.startswith("https://") for known in KNOWN.values())
    assert all(known.key_names for known in KNOWN.values())
