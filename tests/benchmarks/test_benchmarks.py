"""Every benchmark runs to its verdict, made small: what it measures is judged by a person, never here."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pidispatch.runtime.engine import Engine
from tests.support.boxes import image_or_skip

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# What makes each one small, and its arguments.
SMALL = {
    "admission": ({"PROCESSES": (1, 2), "FULL": (50, 100), "EACH": 4, "WARM": 1}, ["--rounds", "1"]),
    "commands": ({"COMMANDS": {"--help": "help", "runs": "read"}}, ["--rounds", "1"]),
    "gateway": ({"CALLS": {1: (2, 1)}, "STREAMS": (1,), "FLAT": 20, "WORDS": 40}, ["--rounds", "1"]),
    "triggers": ({"MANY": 60, "MATCHES": 1, "SECONDS": 2}, []),
}
# They start a whole installation, as programs of their own. How long it takes those without it is not waited for.
WHOLE = {
    "dispatch": ({}, ["--rounds", "1"]),
    "recovery": ({"QUICK_LIMIT": 5.0}, ["--quick", "--rounds", "1"]),
}
PROGRAM = """
import importlib, json, sys
name, smaller, *arguments = sys.argv[1:]
benchmark = importlib.import_module(name)
vars(benchmark).update(json.loads(smaller))
sys.argv = [name, *arguments]
sys.exit(benchmark.main())
"""


def loaded(name, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, found.name, module)
    found.loader.exec_module(module)
    return module


def test_every_benchmark_is_run_here():
    runnable = {path.stem for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text()}

    assert runnable == set(SMALL) | set(WHOLE)


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

    assert code in {0, 1}
    assert_is_verdict(capsys.readouterr().out)


@pytest.mark.docker
@pytest.mark.parametrize("name", WHOLE)
def test_a_benchmark_of_an_installation_ends_with_its_verdict(name):
    image_or_skip(Engine())

    smaller, arguments = WHOLE[name]

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name, json.dumps(smaller), *arguments],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode in {0, 1}, done.stderr
    assert_is_verdict(done.stdout)


def assert_is_verdict(said):
    line = json.loads(said.splitlines()[-1])
    assert {"name", "value", "unit", "target", "ok", "spread", "machine", "load"} <= set(line), said
    assert line["ok"] in {True, False, None}
    assert line["spread"] is None or line["spread"][0] <= line["spread"][1]


@pytest.mark.parametrize(("before", "after", "ok"), [(0.0, 0.1, True), (0.3, 0.0, None), (0.0, 0.3, None)])
def test_there_is_no_verdict_where_others_are_at_work(before, after, ok, monkeypatch, capsys, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    verdict = importlib.import_module("sides.verdict")
    monkeypatch.setattr(verdict, "load", lambda: verdict.Load(after, 1.0))
    monkeypatch.setattr(verdict, "RESULTS", tmp_path / "results")
    line = {"name": "made-up", "value": 2.0, "unit": "ms", "target": 3.0, "ok": True}

    code = verdict.end(line, verdict.Load(before, 1.0), spread=[2.5, 1.5, 2.0], keep="1.2.3")

    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["ok"], told["spread"], code) == (ok, [1.5, 2.5], 0 if ok else 1)
    assert json.loads((tmp_path / "results/1.2.3.made-up.json").read_text()) == told
