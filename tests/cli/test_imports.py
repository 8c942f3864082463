"""What a command loads: a person waits for it, so it loads what it uses. Modules are counted, no clock decides."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.lives import DONE, begin, end
from tests.store.builders import a_host, a_run

ROOT = Path(__file__).parents[2]
COMMAND = """
import json, sys
from pidispatch.entrypoints.cli import main
try:
    main()
finally:
    sys.stderr.write("\\n" + json.dumps(sorted(sys.modules)))
"""
# What the tables are declared with and migrated by: no process needs it at run time.
SCHEMA = {"alembic", "pidispatch.store.models", "pidispatch.store.migrating", "sqlalchemy.orm"}
OUTSIDE = {"docker", "requests", "dramatiq", "redis", "httpx2", "genai_prices", "prometheus_client", "psutil"}
LOGS = {"structlog"}  # nothing silences it in a command that is not to load it
FILES = {
    "pidispatch.ports",
    "pidispatch.app.policy",
    "pidispatch.domain.files.triggers.file",
    "pidispatch.domain.files.overlay",
}
ROWS = {
    "sqlalchemy",
    "psycopg",
    "pydantic",
    "structlog",
    "pidispatch.app",
    "pidispatch.config",
    "pidispatch.store",
}


def loaded_by(*program):
    done = subprocess.run(
        [sys.executable, "-c", *program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.fixture
def loads(bare, database_url, redis_url, database):
    """`loads("runs")`: the modules that a process has loaded by the end of the command."""
    bare.setenv("DATABASE_URL", database_url)
    bare.setenv("REDIS_URL", redis_url)
    a_host(database)
    return lambda *arguments: loaded_by(COMMAND, *arguments)


@pytest.fixture
def ended(database, loads):
    run_id = a_run(database)
    end(database, begin(database), DONE)
    return str(run_id)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)], ids=" ".join)
def test_help_loads_no_command(loads, arguments):
    assert not loads(*arguments) & (ROWS | SCHEMA | OUTSIDE | FILES)


def test_a_list_of_runs_loads_what_reads_rows_and_no_more(loads, ended):
    modules = loads("runs", "--json")

    assert "sqlalchemy" in modules
    assert not modules & (SCHEMA | OUTSIDE | FILES | LOGS | {"pidispatch.store.rundetail"})


def test_one_run_is_shown_from_rows_alone(loads, ended):
    assert not loads("show", ended, "--json") & (SCHEMA | OUTSIDE | FILES | LOGS)


def test_a_run_that_has_ended_is_explained_without_what_is_outside(loads, ended):
    assert not loads("explain", ended, "--json") & (SCHEMA | OUTSIDE)


def test_why_a_run_waits_asks_redis_alone_of_what_is_outside(loads, database):
    assert loads("explain", str(a_run(database)), "--json") & OUTSIDE == {"redis"}


def test_the_budget_is_read_from_rows_and_files(loads):
    assert not loads("budget", "--json") & (SCHEMA | OUTSIDE)


def test_the_queue_asks_the_services_and_nothing_of_prices(loads):
    assert loads("status", "--json") & (SCHEMA | OUTSIDE) <= {"docker", "requests", "redis"}


@pytest.mark.parametrize("module", ["worker", "gateway", "up", "doctor"])
def test_no_process_that_serves_loads_the_tables(module):
    program = f"import json, sys, pidispatch.app.{module}; sys.stderr.write(json.dumps(sorted(sys.modules)))"

    assert not loaded_by(program) & SCHEMA


def test_a_migration_is_applied_without_the_table_classes(loads):
    assert loads("db", "upgrade") & SCHEMA == {"alembic", "pidispatch.store.migrating"}
