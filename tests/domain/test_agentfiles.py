import json

import pytest

from pidispatch.domain.box.agentfiles import agent_files
from pidispatch.gateway.calls import pressure, proxy


def models(provider, model, api, *, known, **figures):
    files = agent_files(provider, model, api, known_to_pi=known, **figures)
    return json.loads(files["models.json"])["providers"]


def test_a_provider_pi_knows_is_only_redirected():
    files = models("anthropic", "claude-sonnet-4-5", "anthropic-messages", known=True)

    assert files == {"anthropic": {"baseUrl": "http://127.0.0.1:4180", "apiKey": "no-key-in-this-box"}}


@pytest.mark.parametrize(
    ("api", "base_url"),
    [
        ("openai-completions", "http://127.0.0.1:4180/v1"),
        ("openai-responses", "http://127.0.0.1:4180/v1"),
        ("anthropic-messages", "http://127.0.0.1:4180"),
    ],
)
def test_a_provider_pi_does_not_know_names_its_api_and_model(api, base_url):
    entry = models("scripted", "happy", api, known=False)["scripted"]

    assert (entry["baseUrl"], entry["api"]) == (base_url, api)
    assert entry["models"] == [{"id": "happy", "contextWindow": 128_000, "maxTokens": 8_192}]


def test_the_operators_figures_stand_before_any_other():
    figures = {"context_window": 4_096, "reasoning": True}

    unknown = models("vllm", "m", "openai-completions", known=False, **figures)["vllm"]
    known = models("openai", "m", "openai-responses", known=True, **figures)["openai"]

    assert unknown["models"] == [{"id": "m", "contextWindow": 4_096, "maxTokens": 4_096, "reasoning": True}]
    assert known["modelOverrides"] == {"m": {"contextWindow": 4_096, "reasoning": True}}
    assert "models" not in known


def test_pi_waits_longer_than_the_gateway_may_hold_a_call():
    settings = json.loads(agent_files("a", "b", "openai-completions", known_to_pi=False)["settings.json"])

    longest_run = 86_400  # seconds, PIDISPATCH_JOB_TIMEOUT: a provider at home may take all of it
    longest = proxy.HOLD_SECONDS + pressure.HOLD_SECONDS + longest_run
    assert settings["httpIdleTimeoutMs"] > longest * 1000
    assert settings["retry"]["maxRetries"] + 1 == pressure.TRIES_OF_PI


def test_nothing_is_paid_for_while_pi_is_idle():
    settings = json.loads(agent_files("a", "b", "openai-completions", known_to_pi=False)["settings.json"])

    assert settings["cacheWarming"] == "off"
    assert settings["retry"] == {"enabled": True, "maxRetries": 3, "baseDelayMs": 2000}
