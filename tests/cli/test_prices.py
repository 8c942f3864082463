"""`prices`: what a model costs, and what to write where nobody says."""

import json

import pytest


@pytest.fixture
def file(bare, tmp_path):
    path = tmp_path / "my.json"
    bare.setenv("PIDISPATCH_PRICES_FILE", str(path))

    def write(**content):
        path.write_text(json.dumps({"version": 1, **content}))

    write()
    return write


def test_without_a_file_the_packages_prices_are_told(command):
    said = command("prices", "anthropic/claude-sonnet-4-5")

    assert said.code == 0
    heading, base, above = said.out.splitlines()
    assert heading.split()[:2] == ["model", "price"]
    assert base.split()[1:4] == ["priced", "to", "200,000"]
    assert base.split()[4:9] == ["3", "15", "0.3", "3.75", "6"]
    assert above.split()[2:6] == ["above", "200,000", "6", "22.5"]
    assert " genai-prices 0." in above


def test_the_model_of_the_configuration_and_all_that_the_file_names_are_told(command, bare, file):
    bare.setenv("PI_PROVIDER", "vllm")
    bare.setenv("PI_MODEL", "qwen")
    file(
        models={"vllm/qwen": {"input": 1, "output": 2, "request": 0.5}, "my/opus": {"like": "anthropic/claude-opus-4-5"}},
        free=["ollama/*"],
        plan={"max": ["anthropic/claude-sonnet-4-5"]},
    )  # fmt: skip
    said = command("prices")
    assert (said.code, len(said.out.splitlines())) == (0, 5)

    found = {row["model"]: row for row in command("prices", "--json").document}

    assert list(found) == ["vllm/qwen", "my/opus", "ollama/*", "anthropic/claude-sonnet-4-5"]
    (tier,) = found["vllm/qwen"]["tiers"]
    assert (tier["above"], tier["input"], tier["output"], tier["request"]) == (
        0,
        1_000_000,
        2_000_000,
        500_000,
    )
    assert found["my/opus"]["like"] == "anthropic/claude-opus-4-5"
    assert found["my/opus"]["version"].startswith("prices-file sha256:")
    assert "genai-prices" in found["my/opus"]["version"]
    assert (found["ollama/*"]["rating"], found["ollama/*"]["tiers"]) == ("free", [])
    assert (found["anthropic/claude-sonnet-4-5"]["rating"], found["anthropic/claude-sonnet-4-5"]["plan"]) == (
        "plan",
        "max",
    )


def test_a_model_without_a_price_is_told_with_what_to_write(command, file):
    file(models={"my/a": {"like": "anthropic/no-such"}})

    none, like = command("prices", "vllm/qwen/3"), command("prices", "my/a")

    assert (none.code, like.code) == (1, 1)
    assert 'PIDISPATCH_PRICES_FILE names: "models": {"vllm/qwen/3": {"input"' in none.out
    assert "it costs what anthropic/no-such does, which has no price" in like.out


@pytest.mark.parametrize("name", ["claude", "/x", "x/", ""])
def test_a_model_is_named_with_its_provider(command, name):
    assert command("prices", name).code == 2


def test_a_file_that_is_refused_ends_with_every_problem(command, file):
    file(models={"a/b": {"input": 1}, "c": {}})

    said = command("prices")

    assert said.code == 2
    assert "my.json:1: models[" in said.err
    assert len(said.err.splitlines()) == 4


def test_a_file_that_is_missing_is_refused(command, bare):
    bare.setenv("PIDISPATCH_PRICES_FILE", "/no/such.json")

    said = command("prices", "a/b")

    assert (said.code, said.err) == (2, "pidispatch: /no/such.json: does not exist\n")
