"""What a contributor is told to run is there, and runs what `make lint` and CI run."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
HOOKS = (ROOT / ".pre-commit-config.yaml").read_text()


def test_the_hooks_are_the_linters_of_make_lint_and_fetch_nothing():
    linters = re.findall(
        r"^\t\$\(BIN\)/(.+)$", MAKEFILE.partition("\nlint:")[2].partition("\n\n")[0], re.MULTILINE
    )
    entries = re.findall(r"entry: \.venv/bin/(.+)$", HOOKS, re.MULTILINE)

    assert entries == [linter.removesuffix(" .") for linter in linters]
    assert re.findall(r"repo: (\S+)", HOOKS) == ["local"]
    assert set(re.findall(r"language: (\S+)", HOOKS)) == {"system"}


def test_the_workflow_checks_out_and_calls_what_ci_calls():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()

    assert re.findall(r"- (?:uses|run): (\S+?)(?:@\S+)?$", workflow, re.MULTILINE) == [
        "actions/checkout",
        ".ci/run",
    ]
    assert "://" not in workflow
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_editors_break_lines_where_the_formatter_does():
    width = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["line-length"]

    assert f"max_line_length = {width}\n" in (ROOT / ".editorconfig").read_text()


def test_each_target_that_is_named_is_there():
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))

    assert set(re.findall(r"(?:^|`)make ([a-z]+)", guide, re.MULTILINE)) - targets == set()
