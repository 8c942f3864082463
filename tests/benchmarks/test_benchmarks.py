"""Every benchmark runs to its verdict, made small: what it measures is judged by a person, never here."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# What makes each one small, and its arguments.
SMALL = {
    "admission": ({"PROCESSES": (1, 2), "FULL": (50, 100), "EACH": 4, "WARM": 1}, ["--rounds", "1"]),
    "commands": ({"COMMANDS": {"--help": "help", "runs": "read"}}, ["--rounds", "1"]),
    "gateway": ({"CALLS": {1: (2, 1)}, "STREAMS": (1,), "FLAT": 20, "WORDS": 40}, ["--rounds", "1"]),
    "triggers": ({"MANY": 60, "MATCHES": 1, "SECONDS": 2}, []),
}
# They start a whole installation beside others, for a minute or more: `make bench` runs them.
BY_HAND = {"dispatch", "recovery"}


def loaded(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, found.name, module)
    found.loader.exec_module(module)
    return module


def test_every_benchmark_is_run_here():
    runnable = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}

    assert runnable == set(SMALL) | BY_HAND


@pytest.mark.parametrize("name", SMALL)
# A benchmark is a program of its own: what it leaves open ends with it.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_benchmark_ends_with_its_verdict(name, monkeypatch, capsys):
    smaller, arguments = SMALL[name]
    module = loaded(name, monkeypatch)
    for constant, value in smaller.items():
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setattr(sys, "argv", [name, *arguments])

    code = module.main()

    verdict = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code in {0, 1}
    assert {"name", "value", "unit", "target", "ok"} <= set(verdict)
