"""What the operator's files and environment say of providers, joined as the gateway and the worker join it."""

import json

import pytest

from pidispatch.app.gateway import _providers
from pidispatch.app.providerfile import forwarded_environment, key_variables, provider_entries, stored_by_pi
from pidispatch.app.up import without_keys
from pidispatch.config import Place, load
from pidispatch.errors import ConfigurationRefused


@pytest.fixture
def settings(tmp_path):
    def make(**environ):
        return load(
            {"PIDISPATCH_RUN_DIR": "/run/short", **environ}, None, place=Place(1000, str(tmp_path), "here")
        )

    return make


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "providers.json"
    entry = {"baseUrl": "http://10.0.0.5/v1", "key": "env:VLLM_KEY", "slots": 2}
    path.write_text(json.dumps({"version": 1, "providers": {"vllm": entry}}))
    return path


@pytest.fixture
def auth(tmp_path):
    def write(**providers):
        path = tmp_path / ".pi/agent/auth.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(providers))
        path.chmod(0o600)
        return path

    return write


def test_without_files_nothing_is_said(settings):
    assert provider_entries(settings()).entries == {}
    assert stored_by_pi(settings(), {}) == {}


def test_a_file_that_is_named_must_be_there(settings, tmp_path):
    with pytest.raises(ConfigurationRefused, match="does not exist"):
        provider_entries(settings(PIDISPATCH_PROVIDERS_FILE=str(tmp_path / "none.json")))


def test_the_gateway_finds_every_key_where_it_was_said_to_be(settings, file, auth, monkeypatch):
    auth(groq={"type": "api_key", "key": "$GROQ_SECRET"}, anthropic={"type": "oauth", "access": "a"})
    monkeypatch.setattr("pidispatch.app.gateway.environment", lambda: {"VLLM_KEY": "v", "GROQ_SECRET": "g", "XAI_API_KEY": "x"})  # fmt: skip

    made = settings(PIDISPATCH_PROVIDERS_FILE=str(file))
    found = _providers(made, provider_entries(made))

    assert [found.find(name).key for name in ("vllm", "groq", "xai", "anthropic")] == ["v", "g", "x", None]
    assert found.facts("anthropic").lacks == "oauth-login"


def test_pi_is_not_asked_when_the_operator_says_so(settings, auth):
    path = auth(groq={"type": "api_key", "key": "g"})

    assert "groq" in stored_by_pi(settings(), {})
    assert stored_by_pi(settings(PI_AUTH_FROM_PI="0"), {}) == {}
    assert "groq" in stored_by_pi(settings(HOME="/none", PI_CODING_AGENT_DIR=str(path.parent)), {})


def test_a_file_of_pi_that_cannot_be_used_is_refused_with_the_way_out(settings, auth):
    auth().write_text('{"groq": sk-secret')

    with pytest.raises(ConfigurationRefused) as refusal:
        stored_by_pi(settings(), {})

    assert "auth.json: is not what pi writes there" in str(refusal.value)
    assert "PI_AUTH_FROM_PI=0" in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_no_worker_gets_a_variable_that_holds_a_key(settings, file):
    made = settings(PIDISPATCH_PROVIDERS_FILE=str(file), PIDISPATCH_UPSTREAM_MINE="http://x")
    everything = dict.fromkeys(["VLLM_KEY", "VLLM_API_KEY", "MINE_API_KEY", "OPENAI_API_KEY", "PATH"], "1")

    assert without_keys(everything, made) == {"PATH": "1"}


def test_what_is_set_is_forwarded_and_the_rest_left_out(settings):
    made = settings(PI_FORWARD_ENV="A,B,C,NODE_ENV")

    assert forwarded_environment(made, {"A": "1", "B": "", "D": "4", "NODE_ENV": "test"}) == {
        "A": "1",
        "NODE_ENV": "test",
    }


@pytest.mark.parametrize("name", ["VLLM_KEY", "VLLM_API_KEY", "MINE_API_KEY"])
def test_a_key_of_a_provider_of_the_operators_own_is_not_forwarded_either(settings, file, name):
    made = settings(
        PI_FORWARD_ENV=name, PIDISPATCH_PROVIDERS_FILE=str(file), PIDISPATCH_UPSTREAM_MINE="http://x"
    )

    with pytest.raises(ConfigurationRefused) as refusal:
        forwarded_environment(made, {name: "secret"})

    assert str(refusal.value) == f"PI_FORWARD_ENV names {name}: the keys of providers stay in the gateway"
    assert name in key_variables(made, provider_entries(made))


def test_what_is_forwarded_is_bounded(settings):
    with pytest.raises(ConfigurationRefused, match="want at most 65536"):
        forwarded_environment(settings(PI_FORWARD_ENV="A"), {"A": "x" * 65_536})
