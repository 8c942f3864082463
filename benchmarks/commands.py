"""Processor time of the commands that a person waits for, beside a bare interpreter and bare libraries in the same run.

    python benchmarks/commands.py [--quick] [--rounds N]

The last line is one JSON object. See benchmarks/README.md.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # measure the checkout this file lies in, installed or not

from admission import new_database, server  # noqa: E402
from sides import verdict  # noqa: E402

from pidispatch.store import migrating  # noqa: E402
from pidispatch.store.database import Database  # noqa: E402

QUICK_ROUNDS, ROUNDS = 5, 20
# What no command that reads rows, or says what there is, can do without.
LIBRARIES = {
    "help": "import typer, typer.rich_utils, rich.console",
    "read": "import typer, rich.console, pydantic, sqlalchemy.dialects.postgresql.psycopg, psycopg",
    "ask": "import typer, rich.console, pydantic, sqlalchemy.dialects.postgresql.psycopg, psycopg, docker, redis",
}
COMMANDS = {
    "--help": "help",
    "--version": "help",
    "runs": "read",
    "budget": "read",
    "status": "ask",
}
TARGET = 2.0  # times its bare libraries, for the worst of them


def processor_seconds(command: list[str], environment: Mapping[str, str]) -> float:
    """User and system time of one process; ends the benchmark when it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def an_installation() -> Iterator[dict[str, str]]:
    """The environment of commands on a migrated database that nobody works on; no Redis is named."""
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home, server() as postgres:
        url = new_database(postgres, "commands")
        database = Database(url)
        migrating.upgrade(database)
        database.close()
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        yield kept | {"PYTHONPATH": str(ROOT), "PIDISPATCH_HOME": home, "DATABASE_URL": url}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    verdict.add_options(parser)
    options = parser.parse_args()
    before = verdict.load()
    programs = {f"bare {name}": [sys.executable, "-c", program] for name, program in LIBRARIES.items()}
    programs |= {name: [sys.executable, "-m", "pidispatch", name] for name in COMMANDS}
    found: dict[str, list[float]] = {name: [] for name in programs}
    with an_installation() as environment:
        for command in programs.values():  # the first reads from disk and writes byte code
            processor_seconds(command, environment)
        for _ in range(options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)):
            for name, command in programs.items():
                found[name].append(processor_seconds(command, environment))
    best = {name: min(seconds) for name, seconds in found.items()}
    ratios = {name: best[name] / best[f"bare {libraries}"] for name, libraries in COMMANDS.items()}
    for name, seconds in best.items():
        beside = f"  {ratios[name]:.2f} of its bare libraries" if name in ratios else ""
        print(f"{name:<10} {seconds * 1000:6.0f} ms{beside}")
    worst = max(ratios.values())
    line = {
        "name": "commands",
        "of": "processor time of the worst command, in that of its bare libraries",
        "value": round(worst, 2),
        "unit": "ratio",
        "target": TARGET,
        "ok": worst <= TARGET,
        "seconds": {name: round(seconds, 3) for name, seconds in best.items()},
    }
    rounds = [
        max(found[name][number] / found[f"bare {libraries}"][number] for name, libraries in COMMANDS.items())
        for number in range(len(found["--help"]))
    ]
    return verdict.end(line, before, spread=rounds, keep=options.keep)


if __name__ == "__main__":
    raise SystemExit(main())
