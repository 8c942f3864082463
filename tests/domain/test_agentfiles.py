import json

import pytest

from pidispatch.domain.agentfiles import agent_files
from pidispatch.gateway import pressure, proxy, upstream


def models(*arguments):
    return json.loads(agent_files(*arguments)["models.json"])["providers"]


def test_a_provider_pi_knows_is_only_redirected():
    files = models("anthropic", "claude-sonnet-4-5", "anthropic-messages", True)

    assert files == {"anthropic": {"baseUrl": "http://127.0.0.1:4180", "apiKey": "no-key-in-this-box"}}


@pytest.mark.parametrize(
    ("api", "base_url"),
    [("openai-completions", "http://127.0.0.1:4180/v1"), ("anthropic-messages", "http://127.0.0.1:4180")],
)
def test_a_provider_pi_does_not_know_names_its_api_and_model(api, base_url):
    entry = models("scripted", "happy", api, False)["scripted"]

    assert (entry["baseUrl"], entry["api"]) == (base_url, api)
    assert [model["id"] for model in entry["models"]] == ["happy"]


def test_openai_lists_its_model_since_pi_would_call_another_api():
    entry = models("openai", "gpt-4o", "openai-completions", True)["openai"]

    assert entry["api"] == "openai-completions"
    assert entry["models"][0]["id"] == "gpt-4o"


def test_pi_waits_longer_than_the_gateway_may_hold_a_call():
    settings = json.loads(agent_files("a", "b", "openai-completions", False)["settings.json"])

    longest = proxy.HOLD_SECONDS + pressure.HOLD_SECONDS + upstream.READ_SECONDS
    assert settings["httpIdleTimeoutMs"] > longest * 1000
    assert settings["retry"]["maxRetries"] + 1 == pressure.TRIES_OF_PI


def test_nothing_is_paid_for_while_pi_is_idle():
    settings = json.loads(agent_files("a", "b", "openai-completions", False)["settings.json"])

    assert settings["cacheWarming"] == "off"
    assert settings["retry"] == {"enabled": True, "maxRetries": 3, "baseDelayMs": 2000}
