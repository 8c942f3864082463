"""`demo`: one real run, start to record, with a scripted provider in place of a paid one."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from pidispatch.domain.providers.wireapis import BASE_PATHS, WIRE_APIS
from pidispatch.entrypoints.cli.output import err, out, plain

TASK = "Change the greeting in hello.txt to `hello pidispatch`, and add a file of your own."
RECORD = (
    "select public_id, outcome, turns, tokens_total, cost_micros, cost_class from run_history"
    " order by ended_at desc limit 3"
)
# Made up, so that the record has a cost: nothing is paid.
PRICES = {"version": 1, "models": {"scripted/happy": {"input": 3, "output": 15, "cacheRead": 0.3}}}
KEPT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "DOCKER_HOST", "COLUMNS", "NO_COLOR")


def demo(
    api: Annotated[
        str,
        typer.Option(
            help="The provider's wire API: openai-completions, openai-responses or anthropic-messages."
        ),
    ] = "openai-completions",
) -> None:
    from pidispatch.app.sample import changes, make_sample
    from pidispatch.app.up import running
    from pidispatch.config import load
    from pidispatch.config.environment import read_settings
    from pidispatch.entrypoints.scripted import ScriptedProvider

    if api not in WIRE_APIS:
        raise typer.BadParameter(f"want {' or '.join(WIRE_APIS)}", param_hint="--api")
    home = read_settings().home / "demo"
    with ScriptedProvider() as provider, tempfile.TemporaryDirectory() as scratch:
        prices = Path(scratch) / "prices.json"
        prices.write_text(json.dumps(PRICES), encoding="utf-8")
        environment = _environment(home, provider.url, api) | {"PIDISPATCH_PRICES_FILE": str(prices)}
        settings = load(environment, None)
        with running(settings, environment, _say, echo=False) as (_, here):
            sample, first = make_sample(settings)
            _say(f"a sample repository: {sample}")
            _show(["run", str(sample), "--task", TASK, "--wait"], environment)
            out.print("\n# what changed, asked of git in a box")
            out.print(plain(changes(here, sample, first)))
            _show(["runs", "--limit", "3"], environment)
            _show(["db", "psql", "-c", RECORD], environment)
            owner = (sample / "hello.txt").stat().st_uid
            out.print(
                f"hello.txt now belongs to user {owner}, as before: {(sample / 'hello.txt').read_text()!r}"
            )
    _say(f"everything is stopped; `PIDISPATCH_HOME={home} pidispatch up` opens this home again")


def _environment(home: Path, url: str, api: str) -> dict[str, str]:
    """Nothing of the operator's own set-up: no key, no database, no cap but the defaults and a dollar for the run."""
    return {
        **{name: os.environ[name] for name in KEPT if name in os.environ},
        "HOME": os.environ.get("HOME", "/"),
        "PIDISPATCH_HOME": str(home),
        "PI_PROVIDER": "scripted",
        "PI_MODEL": "happy",
        "PIDISPATCH_UPSTREAM_SCRIPTED": url + BASE_PATHS[api],
        "PIDISPATCH_PROVIDER_API_SCRIPTED": api,
        "PI_AUTH_FROM_PI": "0",
        "SCRIPTED_API_KEY": "a-key-that-stays-in-the-gateway",
        "PI_MAX_COST_USD": "1",
        "PI_DAILY_CAP": "1000",
    }


def _show(arguments: list[str], environment: Mapping[str, str]) -> None:
    """Run one command as a person would, and show it."""
    shown = " ".join(f"'{word}'" if " " in word else word for word in arguments)
    out.print(f"\n$ pidispatch {plain(shown)}")
    sys.stdout.flush()
    subprocess.run(
        [sys.executable, "-m", "pidispatch", *arguments], env=dict(environment), cwd="/", check=True
    )


def _say(line: str) -> None:
    err.print(plain(line))
