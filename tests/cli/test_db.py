"""`db`: the schema, the address, and psql; a password is in none of what others can see."""

import os
from pathlib import Path

import pytest

from pidispatch.store.address import take_apart

PASSWORD = "hunter2-s3cret"


@pytest.fixture
def empty(command, bare, empty_database_url):
    """The command line with a database that holds no table."""
    bare.setenv("DATABASE_URL", empty_database_url)
    return command


@pytest.fixture
def guarded(command, bare, database_url):
    """The command line with a password in the address of its database."""
    bare.setenv("DATABASE_URL", database_url.replace("pidispatch@", f"pidispatch:{PASSWORD}%3A%5C@"))
    return command


def test_an_empty_database_is_behind_until_it_is_upgraded(empty):
    behind = empty("db", "check")
    upgraded = empty("db", "upgrade")
    ok = empty("db", "check")

    assert (behind.code, upgraded.code, ok.code) == (1, 0, 0)
    wanted = ok.out.split()[2].rstrip(",")
    assert behind.out == f"behind: at no revision, this version needs {wanted}; run `pidispatch db upgrade`\n"
    assert upgraded.err.splitlines()[0] == "schema: empty -> 0001: The first tables"
    assert upgraded.err.endswith(f"\nschema: empty -> {wanted}\n")
    assert ok.out == f"ok: at {wanted}, this version needs {wanted}\n"
    assert empty("db", "upgrade").err == f"schema: {wanted} already\n"


def test_a_newer_database_is_ahead(pidispatch, database):
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE pidispatch_alembic_version SET version_num = '9999'")

    said = pidispatch("db", "check", "--json")

    assert said.code == 1
    assert (said.document["state"], said.document["found"]) == ("ahead", "9999")
    assert list(said.document) == ["state", "found", "wanted", "missing"]
    for arguments in (("db", "upgrade"), ("runs",), ("run", "/tmp", "--task", "x")):
        refused = pidispatch(*arguments)
        assert refused.code == 2
        assert "install that version" in refused.err


def test_reading_from_a_database_that_is_behind_names_the_way_out(empty):
    said = empty("runs")

    assert said.code == 2
    assert "run `pidispatch db upgrade`" in said.err
    assert said.err.count("\n") == 1


def test_the_address_has_no_password_and_is_one_for_psql(guarded, pidispatch_psql):
    said = guarded("db", "url")

    assert said.code == 0
    assert said.out.startswith("postgresql://pidispatch@/pd_")
    assert PASSWORD not in said.out
    assert pidispatch_psql(said.out.strip(), "SELECT current_user") == "pidispatch"


@pytest.fixture
def pidispatch_psql():
    import psycopg

    def ask(url, question):
        with psycopg.connect(url) as connection:
            return connection.execute(question).fetchone()[0]

    return ask


@pytest.mark.parametrize(
    ("address", "url", "password"),
    [
        ("postgresql+psycopg://u:p%40w@h:5/d", "postgresql://u@h:5/d", "p@w"),
        (
            "postgresql+psycopg://u@h/d?password=pw&sslmode=require",
            "postgresql://u@h/d?sslmode=require",
            "pw",
        ),
        ("postgresql+psycopg://u@h/d?sslpassword=pw&unheard=of", "postgresql://u@h/d", None),
        ("postgresql+psycopg:///d?host=/run/x&port=6", "postgresql:///d?host=%2Frun%2Fx&port=6", None),
    ],
)
def test_an_address_is_taken_apart(address, url, password):
    found = take_apart(address)

    assert (found.url, found.password) == (url, password)
    assert "p" not in repr(found).replace("pidispatch.store.address.Address object", "")


def test_psql_takes_its_own_arguments(pidispatch):
    assert pidispatch("db", "psql", "-c", "select 40 + 2 as answer", "-At").out == "42\n"
    assert pidispatch("db", "psql", "--help").out.startswith("psql is the PostgreSQL")


def test_the_exit_status_is_psqls(pidispatch):
    said = pidispatch("db", "psql", "-c", "select nonsense")

    assert said.code == 1
    assert 'column "nonsense" does not exist' in said.err


def test_psql_gets_the_password_in_a_private_file_that_is_gone_afterwards(guarded):
    look = r"""\! stat -c '%a' "$PGPASSFILE"; cat "$PGPASSFILE"; echo "file=$PGPASSFILE"; echo "env=$PGPASSWORD"; tr '\0' ' ' </proc/$PPID/cmdline"""

    said = guarded("db", "psql", "-c", look)

    mode, content, file, environment, argv = said.out.splitlines()[:5]
    assert (mode, environment) == ("600", "env=")
    assert content == rf"*:*:*:*:{PASSWORD}\:\\"
    assert PASSWORD not in argv
    assert "postgresql://pidispatch@/" in argv
    assert not os.path.lexists(file.removeprefix("file="))
    assert PASSWORD not in guarded("db", "psql", "-c", r"\! env").out


def test_without_psql_the_way_out_is_said(pidispatch, bare):
    bare.setattr("pidispatch.services.binaries._wheel", lambda name: None)
    bare.setattr("pidispatch.services.binaries._DEBIAN_POSTGRES", Path("/nonexistent"))
    bare.setenv("PATH", "/nonexistent")

    said = pidispatch("db", "psql")

    assert said.code == 1
    assert said.err.startswith("pidispatch: psql is missing: ")


def test_a_role_without_rights_is_told_on_one_line(command, bare, services, database_url, empty_database_url):
    with services.administrator() as connection:
        connection.execute("DROP ROLE IF EXISTS pd_weak")
        connection.execute("CREATE ROLE pd_weak LOGIN")
    try:
        for url, arguments in (
            (database_url, ("runs",)),
            (database_url, ("run", "/tmp", "--task", "a secret task")),
            (empty_database_url, ("db", "upgrade")),
        ):
            bare.setenv("DATABASE_URL", url.replace("pidispatch@", "pd_weak@"))
            bare.setenv("REDIS_URL", "redis://127.0.0.1:1")
            said = command(*arguments)
            assert said.code == 1
            assert said.err.startswith("pidispatch: Postgres refuses: permission denied")
            assert said.err.count("\n") == 1
    finally:
        with services.administrator() as connection:
            connection.execute("DROP ROLE pd_weak")
