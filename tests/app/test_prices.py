"""The prices of a process that serves: the file as it is now, over the package."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from pidispatch.app.prices import prices_of, prices_problems
from pidispatch.config import Place, load
from pidispatch.domain.providers.rates import Rating
from pidispatch.errors import ConfigurationRefused

PLACE = Place(uid=1000, user_home="/home/me", host_name="h")


def settings(path=None):
    return load({} if path is None else {"PIDISPATCH_PRICES_FILE": str(path)}, None, place=PLACE)


def write(path, **content):
    path.write_text(json.dumps({"version": 1, **content}))


def test_an_edit_holds_at_the_next_call_and_a_bad_one_is_told_once(tmp_path):
    path = tmp_path / "prices.json"
    write(path, free=["vllm/*"])
    prices = prices_of(settings(path))
    assert prices.find("vllm", "qwen").rating is Rating.FREE

    write(path, models={"vllm/qwen": {"input": 1, "output": 2}})
    assert prices.find("vllm", "qwen").tiers[0][1].fresh == 1_000_000

    with structlog.testing.capture_logs() as logs:
        path.write_text("{")
        kept = [prices.find("vllm", "qwen").tiers[0][1].out for _ in range(3)]
        path.unlink()
        kept.append(prices.find("vllm", "qwen").tiers[0][1].out)
    assert kept == [2_000_000] * 4
    assert [entry["event"] for entry in logs] == ["prices_file_reload_invalid"] * 2
    assert prices.find("anthropic", "claude-opus-4-5").version.startswith("genai-prices ")


def test_without_a_file_the_packages_prices_are_in_force():
    prices = prices_of(settings())

    assert prices.find("anthropic", "claude-opus-4-5").rating is Rating.PRICED
    assert prices.find("vllm", "qwen") is None
    assert prices_problems(settings()) == ()


def test_a_bad_file_refuses_the_start(tmp_path):
    path = tmp_path / "prices.json"
    write(path, free=["x"])

    with pytest.raises(ConfigurationRefused):
        prices_of(settings(path))
    (told,) = prices_problems(settings(path))
    assert told.startswith(
        f'{path}:1: free[0]: "x" is not provider/model or provider/*; nothing stands in for it'
    )
    gateway = subprocess.run(
        [sys.executable, "-m", "pidispatch.entrypoints.gateway"],
        env={"PATH": os.defpath, "PIDISPATCH_PRICES_FILE": str(path), "PIDISPATCH_HOME": str(tmp_path / "home"),
             "PIDISPATCH_RUN_DIR": str(tmp_path / "r"), "PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert (gateway.returncode, "free[0]" in gateway.stderr) == (2, True)
