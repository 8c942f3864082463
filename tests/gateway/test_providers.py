"""The table of providers and what an installation may change of it."""

import pytest

from pidispatch.domain.providers.known import KNOWN, key_names
from pidispatch.domain.providers.piauth import Stored
from pidispatch.domain.providers.providersfile import KeyFrom, ModelFigures, ProviderEntry
from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, WIRE_APIS
from pidispatch.errors import ConfigurationRefused
from pidispatch.gateway.providers import Providers


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


def test_every_known_provider_speaks_one_of_the_apis_over_tls():
    assert {known.api for known in KNOWN.values()} == set(WIRE_APIS)
    assert all(known.base.startswith("https://") for known in KNOWN.values())
    assert all(known.key_names for known in KNOWN.values())


def test_openai_is_reached_as_pi_reaches_it_and_by_another_api_on_request():
    plain = Providers(keys={"OPENAI_API_KEY": "o"}).find("openai")
    chat = Providers(keys={}, apis={"openai": OPENAI}).find("openai")

    assert plain.url == "https://api.openai.com/v1/responses"
    assert plain.credentials() == (("authorization", "Bearer o"),)
    assert plain.facts.known_to_pi
    assert chat.url == "https://api.openai.com/v1/chat/completions"
    assert not chat.facts.known_to_pi


def test_a_model_that_pi_would_reach_by_another_api_is_written_out():
    providers = Providers(keys={})

    assert providers.facts("openrouter", "qwen/qwen3-coder").known_to_pi
    assert not providers.facts("openrouter", "anthropic/claude-sonnet-4.5").known_to_pi


def test_the_providers_file_makes_and_changes_providers():
    figures = ModelFigures(131_072, 16_384, reasoning=True)
    entries = {
        "vllm": ProviderEntry(
            base_url="http://10.0.0.5:8000/v1", key=KeyFrom(), slots=2, models={"q": figures}
        ),
        "groq": ProviderEntry(slots=3),
    }
    providers = Providers(keys={"GROQ_API_KEY": "g"}, entries=entries)
    known, listed, other = providers.find("groq"), providers.facts("vllm", "q"), providers.facts("vllm", "r")

    assert (known.url, known.slots) == ("https://api.groq.com/openai/v1/chat/completions", 3)
    assert (providers.find("vllm").slots, providers.find("anthropic").slots) == (2, None)
    assert (listed.context_window, listed.max_tokens, listed.reasoning) == (131_072, 16_384, True)
    assert listed.model_listed
    assert (other.context_window, other.model_listed) == (None, False)
    assert listed.credential
    assert providers.find("vllm").credentials() == ()


FAR, NEAR = "http://10.0.0.5/v1", "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("entry", "keys", "stored", "key", "source", "lacks"),
    [
        # the environment first, then pi
        (ProviderEntry(), {"GROQ_API_KEY": "e"}, {"groq": Stored("p")}, "e", "GROQ_API_KEY", None),
        (ProviderEntry(), {"GROQ_API_KEY": " "}, {"groq": Stored("p")}, "p", "pi's auth.json", None),
        (ProviderEntry(), {}, {}, None, None, "no-key"),
        (ProviderEntry(), {}, {"groq": Stored(lacks="oauth-login")}, None, None, "oauth-login"),
        (ProviderEntry(), {"GROQ_API_KEY": "e"}, {"groq": Stored(lacks="oauth-login")}, "e", "GROQ_API_KEY", None),
        # what the file says, and nothing else
        (ProviderEntry(key=KeyFrom(env="MINE")), {"MINE": "m", "GROQ_API_KEY": "e"}, {}, "m", "MINE", None),
        (ProviderEntry(key=KeyFrom(env="MINE")), {"GROQ_API_KEY": "e"}, {"groq": Stored("p")}, None, None, "no-key"),
        (ProviderEntry(key=KeyFrom(pi=True)), {"GROQ_API_KEY": "e"}, {"groq": Stored("p")}, "p", "pi's auth.json", None),
        (ProviderEntry(key=KeyFrom()), {"GROQ_API_KEY": "e"}, {}, None, None, None),
        # an address of this machine needs none unless one was named
        (ProviderEntry(base_url=NEAR), {}, {}, None, None, None),
        (ProviderEntry(base_url=FAR), {}, {}, None, None, "no-key"),
        (ProviderEntry(base_url=FAR, key=KeyFrom()), {}, {}, None, None, None),
        (ProviderEntry(base_url=NEAR, key=KeyFrom(env="MINE")), {}, {}, None, None, "no-key"),
    ],
)  # fmt: skip
def test_where_a_key_comes_from_and_what_is_missing(entry, keys, stored, key, source, lacks):
    provider = Providers(keys=keys, entries={"groq": entry}, stored=stored).find("groq")

    facts = provider.facts
    assert (provider.key, facts.key_source, facts.lacks) == (key, source, lacks)
    assert facts.credential == (lacks is None)


def test_the_file_and_the_environment_must_not_contradict_each_other():
    entries = {"a-b": ProviderEntry(base_url=FAR, api=OPENAI)}

    with pytest.raises(ConfigurationRefused) as refusal:
        Providers(keys={}, upstreams={"a-b": NEAR}, apis={"a-b": ANTHROPIC}, entries=entries)
    same = Providers(keys={}, upstreams={"a-b": FAR + "/"}, apis={"a-b": OPENAI}, entries=entries)

    assert len(refusal.value.problems) == 2
    assert "the providers file and PIDISPATCH_UPSTREAM_A_B differ; take one of them away" in str(
        refusal.value
    )
    assert same.find("a-b").url == f"{FAR}/chat/completions"


def test_file_and_environment_add_up():
    entries = {"mine": ProviderEntry(slots=1, base_url=NEAR)}

    provider = Providers(keys={}, apis={"mine": ANTHROPIC}, entries=entries).find("mine")

    assert (provider.slots, provider.url) == (1, f"{NEAR}/v1/messages")


@pytest.mark.parametrize(
    ("entry", "said", "first"),
    [
        (ProviderEntry(base_url="https://api.example.com/v1"), None, 300.0),
        (ProviderEntry(base_url="https://api.example.com/v1"), 60, 60),
        (ProviderEntry(base_url="https://api.example.com/v1"), 0, None),
        (ProviderEntry(base_url="https://api.example.com/v1", first_byte=900), 60, 900),
        (ProviderEntry(base_url="http://127.0.0.1:11434/v1"), None, None),
        (ProviderEntry(base_url="http://10.0.0.6:11434/v1"), None, None),
        (ProviderEntry(base_url="http://ollama:11434/v1"), None, None),
        (ProviderEntry(base_url="http://host.docker.internal:1/v1"), None, None),
        (ProviderEntry(base_url="http://[fd00::1]/v1"), None, None),
        (ProviderEntry(base_url="http://10.0.0.6:11434/v1"), 60, 60),
        (ProviderEntry(base_url="http://10.0.0.6:11434/v1", first_byte=0), 60, None),
        (ProviderEntry(base_url="http://10.0.0.6.example.com/v1"), None, 300.0),
    ],
)
def test_a_provider_at_home_may_take_any_time_to_begin(entry, said, first):
    provider = Providers(keys={"MINE_API_KEY": "k"}, entries={"mine": entry}, first_byte=said).find("mine")

    assert provider.patience.first == first
    assert provider.patience.next == 300.0
