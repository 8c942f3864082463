"""Every command against Postgres in each state: a sentence and an exit code, never a traceback."""

import json
import os
import signal
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from pidispatch.services.account import server_account
from pidispatch.services.postgres import EmbeddedPostgres
from pidispatch.store import migrating
from pidispatch.store.database import Database
from tests.attack.servers.states import ARGUMENTS, LEFT_OUT, OF_THE_DATABASE, SAMPLE, STARTERS, every_command
from tests.support.scale import NIGHTLY

ONCE = [{"id": "once", "on": {"type": "issue", "action": ["closed"], "once": True, "repo": "acme/web", "number": 7}, "run": {"kind": "github", "flow": "x"}}]  # fmt: skip


def test_the_audit_knows_every_command():
    assert every_command() == set(ARGUMENTS) | set(LEFT_OUT)


@pytest.fixture
def tried(command, bare, folder, gitbox, redis_url, tmp_path, short_directory):
    """`tried(url, names)` runs the commands and returns what each said. Nothing but SystemExit leaves `main`."""
    (tmp_path / "triggers.json").write_text(json.dumps({"triggers": ONCE}))
    (tmp_path / "event.json").write_text("{}")
    bare.setenv("PIDISPATCH_HOME", str(short_directory / "home"))  # where the servers' user may walk
    bare.setenv("PI_TRIGGERS_FILE", str(tmp_path / "triggers.json"))
    bare.setenv("PI_SETTINGS_FILE", str(tmp_path / "settings.json"))

    def run(url, names, redis=redis_url):
        bare.setenv("DATABASE_URL", url)
        bare.setenv("REDIS_URL", redis)
        return {name: command(*(word.format(folder=folder) for word in ARGUMENTS[name])) for name in names}

    return run


def assert_sentences(said, words):
    for name, each in said.items():
        assert "Traceback" not in each.err + each.out, (name, each.err)
        assert each.code in {0, 1, 2}, (name, each)
        if name in OF_THE_DATABASE:
            assert each.code in {1, 2}, (name, each)
            told = each.out if name == "db check" and not each.err else each.err
            assert words in told, (name, each)
            assert told.count("\n") == 1, (name, told)
    if "doctor" in said:
        assert said["doctor"].code == 1
        assert words in said["doctor"].out


def libpq(url):
    return url.replace("+psycopg", "")


# -- the states


@pytest.fixture
def down(closed_port):
    return f"postgresql://u@127.0.0.1:{closed_port}/d", "Postgres does not answer"


@pytest.fixture
def no_such_database(services):
    return services.postgres.url("nowhere"), 'database "nowhere" does not exist'


@pytest.fixture
def no_such_option(services):
    return services.postgres.url("postgres") + "&unheard=of", "unheard"


@pytest.fixture
def made(services):
    """`made(options)`: a database with them, owned by the application's role."""
    names = []

    def make(options):
        name = f"pd_state_{len(names)}"
        with services.administrator() as administrator:
            administrator.execute(f"CREATE DATABASE {name} TEMPLATE template0 OWNER pidispatch {options}")
        names.append(name)
        return services.postgres.url(name)

    yield make
    for name in names:
        services.drop_database(name)


@pytest.fixture
def ascii_database(made):
    return made("ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc"), "its encoding is SQL_ASCII"


@pytest.fixture
def latin_database(made):
    return made("ENCODING 'LATIN1' LOCALE 'C' LOCALE_PROVIDER libc"), "its encoding is LATIN1"


@pytest.fixture
def frozen(services, database_url):
    name = make_url(database_url).database
    with services.administrator() as administrator:
        administrator.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    return database_url, "default_transaction_read_only is on"


@pytest.fixture
def an_older_schema(database_url):
    database = Database(database_url)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE pidispatch_alembic_version SET version_num = '0001'")
    database.close()
    return database_url, "behind"


@pytest.fixture
def no_tables(database_url):
    database = Database(database_url)
    with database.transaction() as connection:
        connection.exec_driver_sql("DROP TABLE runs, scopes CASCADE")
    database.close()
    return database_url, "lacks runs, scopes"


@pytest.fixture
def a_role(services):
    """`a_role(options)`: a role of its own on a server that asks it for its password."""
    hba = services.postgres.data_dir / "pg_hba.conf"
    before = hba.read_text()

    def reload():
        with services.administrator() as administrator:
            administrator.execute("SELECT pg_reload_conf()")

    def make(options):
        with services.administrator() as administrator:
            administrator.execute("DROP ROLE IF EXISTS pd_state")
            administrator.execute(f"CREATE ROLE pd_state LOGIN PASSWORD 'right' {options}")
        hba.write_text(f"local all pd_state scram-sha-256\n{before}")
        reload()

    yield make
    hba.write_text(before)
    reload()
    with services.administrator() as administrator:
        administrator.execute("DROP ROLE IF EXISTS pd_state")


@pytest.fixture
def wrong_password(database_url, a_role):
    a_role("")
    return database_url.replace("pidispatch@", "pd_state:wrong@"), "password authentication failed"


@pytest.fixture
def no_connection_left(database_url, a_role):
    a_role("CONNECTION LIMIT 0")
    return database_url.replace("pidispatch@", "pd_state:right@"), "too many connections"


@pytest.fixture(scope="module")
def standby(short_directory_of_module):
    folder = short_directory_of_module
    server = EmbeddedPostgres(folder / "postgres", folder / "p", server_account(), durable=False)
    server.start()
    database = Database(server.url())
    migrating.upgrade(database)
    database.close()
    server.stop()
    signal_file = folder / "postgres" / "standby.signal"
    signal_file.touch()
    owner = (folder / "postgres").stat()
    os.chown(signal_file, owner.st_uid, owner.st_gid)
    server.start()
    yield server.url(), "it is a standby"
    server.stop()


@pytest.fixture(scope="module")
def short_directory_of_module():
    import shutil
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="pd-", dir="/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


STATES = (
    "down", "no_such_database", "no_such_option", "ascii_database", "latin_database", "frozen", "an_older_schema", "no_tables",
    "wrong_password", "no_connection_left", "standby",
)  # fmt: skip
# An upgrade is what an older schema needs; psql and `db url` judge nothing.
WELL = {"an_older_schema": {"db upgrade", "up"}}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("state", STATES)
def test_every_command_tells_of_postgres_in_one_sentence(request, tried, state):
    url, words = request.getfixturevalue(state)

    said = tried(url, [name for name in ARGUMENTS if name not in WELL.get(state, ())])

    assert_sentences(said, words)


@pytest.mark.timeout(900)
def test_a_postgres_that_says_nothing_is_given_up(tried, mute):
    url = f"postgresql://u@127.0.0.1:{mute}/d?connect_timeout=2"

    said = tried(url, ARGUMENTS if NIGHTLY else SAMPLE)

    assert_sentences(
        {name: each for name, each in said.items() if name != "db psql"}, "Postgres does not answer"
    )


def test_a_server_that_is_stopped_says_nothing_too(tried, services, database_url):
    """The kernel takes the connection for a process that does not run."""
    os.kill(services.postgres.pid, signal.SIGSTOP)
    try:
        said = tried(f"{database_url}&connect_timeout=2", ("runs", "status"))
    finally:
        os.kill(services.postgres.pid, signal.SIGCONT)

    assert_sentences(said, "Postgres does not answer")
    with psycopg.connect(libpq(database_url)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_nothing_that_starts_processes_is_run_against_a_server_that_is_well():
    assert set(STARTERS) <= set(ARGUMENTS)
