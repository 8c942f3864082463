"""What every command does when something is away or secret."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PASSWORD = "hunter2-s3cret-s3cret"
READING = [
    ("runs",), ("runs", "--json"), ("show", "x"), ("status",), ("status", "--json"), ("logs", "x"),
    ("explain", "x"), ("explain", "x", "--json"), ("budget",), ("budget", "--json"),
]  # fmt: skip
SWITCHING = [("pause",), ("resume",), ("pause", "--scope", "/tmp", "--json")]
DATABASE = [("db", "check"), ("db", "upgrade"), *READING, *SWITCHING, ("run", "/tmp", "--task", "x")]
MAIN = "from pidispatch.entrypoints.cli import main; main()"


@pytest.mark.parametrize("arguments", DATABASE, ids=" ".join)
def test_a_database_that_is_away_is_one_line_and_exit_code_1(command, bare, arguments):
    bare.setenv("DATABASE_URL", f"postgresql://u:{PASSWORD}@/d?host=/nonexistent")
    bare.setenv("REDIS_URL", f"redis://:{PASSWORD}@127.0.0.1:1")

    said = command(*arguments)

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("pidispatch: Postgres does not answer: ")
    assert said.err.count("\n") == 1
    assert PASSWORD not in said.err


@pytest.mark.parametrize("arguments", [*DATABASE, ("db", "url"), ("db", "psql"), ("doctor",)], ids=" ".join)
def test_without_services_the_way_out_is_named(command, arguments):
    said = command(*arguments)

    assert (said.code, said.out) == (2, "")
    assert "run `pidispatch up`, or set" in said.err
    assert said.err.count("\n") == 1


def test_reading_needs_no_redis(command, bare, database_url):
    bare.setenv("DATABASE_URL", database_url)

    assert command("runs").code == 0
    assert command("status").code == 0
    assert command("budget").code == 0


@pytest.mark.usefixtures("gitbox")
def test_no_command_prints_a_password(command, bare, database_url, redis_url, folder):
    bare.setenv("DATABASE_URL", database_url.replace("pidispatch@", f"pidispatch:{PASSWORD}@"))
    bare.setenv("VALKEY_URL", f"{redis_url}&password={PASSWORD}".replace("?&", "?"))
    bare.setenv("VALKEY_PASSWORD", PASSWORD)
    bare.setenv("ANTHROPIC_API_KEY", f"sk-{PASSWORD}")
    asked = [
        *DATABASE,
        ("run", str(folder), "--task", "x"),
        ("run", str(folder), "--task", "x", "--json"),
        ("config",),
        ("config", "--json"),
        ("db", "url"),
        ("db", "psql", "-c", "select 1"),
        ("db", "psql", "-c", "select nonsense"),
        ("image", "check"),
        ("doctor",),
        ("doctor", "--json"),
    ]

    for arguments in asked:
        said = command(*arguments)
        assert PASSWORD not in said.out + said.err, arguments
    assert '"VALKEY_PASSWORD"' in command("config", "--json").out


def test_a_refused_address_is_not_printed(command, bare):
    bare.setenv("DATABASE_URL", f"mysql://u:{PASSWORD}@h/d")

    for arguments in (("config", "--json"), ("db", "url"), ("db", "check")):
        said = command(*arguments)
        assert said.code == 2
        assert "DATABASE_URL" in said.err
        assert PASSWORD not in said.out + said.err


def test_help_loads_nothing_heavy():
    look = (
        "import atexit, sys\n"
        "heavy = {'sqlalchemy', 'alembic', 'docker', 'httpx2', 'dramatiq', 'redis', 'psycopg', 'pydantic'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", look + MAIN, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stderr == "[]\n"
    for name in (
        "up",
        "worker",
        "run",
        "runs",
        "show",
        "logs",
        "explain",
        "status",
        "budget",
        "pause",
        "resume",
        "doctor",
        "config",
        "db",
        "image",
    ):
        assert f" {name} " in done.stdout


def test_a_terminal_of_few_letters_ends_no_command(pidispatch, database_url, database):
    from tests.store.builders import a_run

    a_run(database, folder="/repos/\u4f60\u597d")
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}

    done = subprocess.run(
        [sys.executable, "-c", MAIN, "runs"], env=environment, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert rb"local:\u4f60\u597d" in done.stdout


def test_a_reader_that_leaves_ends_a_command_quietly(pidispatch, database):
    from tests.store.builders import a_run

    for _ in range(200):
        a_run(database)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" runs --json --limit 200 | head -c 10', sys.executable, MAIN],
        env=environment,
        capture_output=True,
        check=False,
    )

    assert done.stderr == b""
