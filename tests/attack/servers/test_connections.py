"""What operators set on their own Postgres, and a pooler in front of it, change nothing of what statements mean."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, make_url, text

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.providers.calls import CallEnd
from pidispatch.domain.runs.run import State
from pidispatch.errors import DatabaseUnavailable
from pidispatch.services.account import server_account
from pidispatch.store import connecting, migrating, schema, versions
from pidispatch.store.database import Database, _leave_out_the_dead
from pidispatch.store.pipeline import alone
from pidispatch.store.read import history
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from tests.cli.lives import DONE, begin, end
from tests.store.builders import a_host, a_run, try_next, value
from tests.support.calls import opened
from tests.support.patience import eventually
from tests.support.pooler import Pooler, program
from tests.support.scale import NIGHTLY

ROOT = Path(__file__).parents[3]
# Each alone broke something, or would: what a role or a database is set to.
SETTINGS = (
    "datestyle = 'SQL, DMY'",
    "intervalstyle = 'sql_standard'",
    "timezone = 'Asia/Kathmandu'",
    "default_transaction_isolation = 'serializable'",
    "default_transaction_deferrable = on",
    "statement_timeout = '5s'",
    "lock_timeout = '5s'",
    "idle_in_transaction_session_timeout = '10s'",
    "client_encoding = 'LATIN1'",
    "standard_conforming_strings = off",
    "bytea_output = 'escape'",
    "array_nulls = off",
    "synchronous_commit = off",
    "extra_float_digits = -15",
)
SHOWN = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "statement_timeout": "1min",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "20s",
    "synchronous_commit": "on",
    "transaction_isolation": "read committed",
}


@pytest.fixture
def odd(services, database_url):
    """`odd(setting, …)`: a database with these settings, and the address straight to it."""
    name = make_url(database_url).database

    def alter(*settings):
        with services.administrator() as administrator:
            for each in settings:
                administrator.execute(f"ALTER DATABASE {name} SET {each}")
        return services.postgres.url(name)

    return alter


@pytest.fixture(params=["straight", "pooled"])
def through(request, services):
    """`through(url)`: the address as it is, or behind PgBouncer."""
    if request.param == "straight":
        return lambda url: url
    pooler = request.getfixturevalue("pooler")
    return lambda url: pooler.url(make_url(url).database)


def a_whole_life(database):
    """A run from its row to its record, with a model call: what goes through every kind of statement."""
    run_id = a_run(database, task="gr\u00fc\u00dfe \u4f60\u597d \\d '".encode())
    claim = begin(database)
    assert claim.run_id == run_id
    ledger = PostgresCallLedger(database)
    ledger.settle_call(opened(ledger, run_id, claim.attempt), CallEnd(200, "stop", tokens_in=5, tokens_out=1))
    end(database, claim, DONE)
    found = history.run_record(database, run_id)
    assert (found.state, found.outcome, found.calls) == (State.ENDED, "completed", 1)
    assert found.created_at.tzinfo is not None
    assert found.created_at.utcoffset().total_seconds() == 0


@pytest.mark.parametrize(
    "settings",
    [*((each,) for each in SETTINGS), SETTINGS],
    ids=lambda each: each[0] if len(each) == 1 else "all",
)
def test_a_setting_of_the_operator_changes_nothing(odd, through, settings):
    database = Database(through(odd(*settings)), pool_size=2)
    try:
        a_whole_life(database)
        with database.transaction() as connection:
            shown = {name: connection.execute(text(f"SHOW {name}")).scalar_one() for name in SHOWN}
        assert shown == SHOWN
        told = {name: alone(database, text(f"SHOW {name}"), {})[0][0] for name in SHOWN}
        assert told == SHOWN
    finally:
        database.close()


def test_what_runs_at_once_under_serializable_is_never_refused(odd, through):
    """Six parallel requests: four said that Postgres does not answer."""
    url = through(odd("default_transaction_isolation = 'serializable'"))
    database = Database(url, pool_size=6)
    a_host(database, capacity=50)
    failed = []

    def ask():
        try:
            for _ in range(5):
                a_run(database)
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed
    assert value(database, "SELECT count(*) FROM runs") == 30
    database.close()


def test_the_search_path_stays_the_operators(services, empty_database_url, through):
    """The tables live where the operator's path says, and are found there again."""
    name = make_url(empty_database_url).database
    with psycopg.connect(host=str(services.postgres.run_dir), user="pidispatch", dbname=name) as connection:
        connection.execute("CREATE SCHEMA agents")
    with services.administrator() as administrator:
        administrator.execute(f"ALTER DATABASE {name} SET search_path = agents")
    database = Database(through(services.postgres.url(name)), pool_size=1)

    migrating.upgrade(database)
    a_whole_life(database)

    assert (
        value(database, "SELECT count(*) FROM pg_tables WHERE schemaname = 'agents' AND tablename = 'runs'")
        == 1
    )
    database.close()


def test_a_pooler_is_noticed_and_nothing_is_prepared_or_left_in_its_sessions(pooler, database_url, services):
    name = make_url(database_url).database
    database = Database(pooler.url(name), pool_size=1)
    for _ in range(12):
        a_host(database)
        value(database, "SELECT 1")
    a_whole_life(database)
    with psycopg.connect(
        host=str(pooler.folder),
        port=6432,
        user="pidispatch",
        dbname=name,
        prepare_threshold=None,
        autocommit=True,
    ) as other:
        for _ in range(12):  # each session in turn
            assert other.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
            assert other.execute("SHOW statement_timeout").fetchone() == ("0",)
            assert other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (
                0,
            )
    database.close()


def test_straight_to_postgres_statements_are_prepared(services, database_url):
    database = Database(services.postgres.url(make_url(database_url).database), pool_size=1)
    for _ in range(12):
        a_host(database)
    assert value(database, "SELECT count(*) FROM pg_prepared_statements") > 0
    database.close()


def test_two_upgrades_through_a_pooler_take_turns(pooler, empty_database_url):
    url = pooler.url(make_url(empty_database_url).database)
    failed = []

    def upgrade():
        database = Database(url, pool_size=1)
        try:
            migrating.upgrade(database)
        except Exception as error:  # noqa: BLE001 - told below
            failed.append(error)
        database.close()

    threads = [threading.Thread(target=upgrade) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    database = Database(url, pool_size=1)
    assert not failed
    assert schema.state(database).fit is schema.Fit.OK
    database.close()


def test_a_lock_that_nobody_lets_go_of_is_an_error_that_is_told(database_url, monkeypatch):
    monkeypatch.setitem(dict_of_wanted(), "lock_timeout", "50ms")
    database, holder = Database(database_url, pool_size=1), Database(database_url, pool_size=1)
    a_host(database)
    database.close()
    with holder.transaction() as connection:
        connection.execute(text("SELECT 1 FROM hosts FOR UPDATE"))
        with pytest.raises(DatabaseUnavailable, match="lock timeout"), database.transaction() as other:
            other.execute(text("SELECT 1 FROM hosts FOR UPDATE"))
    holder.close()
    database.close()


def dict_of_wanted():
    from pidispatch.store import connecting

    return connecting.WANTED


def test_a_box_gets_its_go_and_its_call_through_a_pooler(pooler, database_url):
    database = Database(pooler.url(make_url(database_url).database), pool_size=2)
    a_host(database)
    run_id = a_run(database)
    assert isinstance(try_next(database)[1], Admitted)
    assert not PostgresTickets(database, timeout=60).give_go(run_id, 1, "none")
    database.close()


@pytest.mark.skipif(
    not NIGHTLY, reason="the suites of the store and the flows again, behind PgBouncer: nightly"
)
@pytest.mark.timeout(3600)
def test_the_store_and_the_flows_pass_behind_a_pooler(pooler):
    argv = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/store", "tests/flows", "tests/contract"]
    argv += ["--deselect", "tests/store/test_roundtrips.py", "--deselect", "tests/store/test_a_year.py"]
    done = subprocess.run(
        [sys.executable, *argv],
        cwd=ROOT,
        env=os.environ | {"PIDISPATCH_TEST_POOLER": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-9000:]


# -- the table of the revision


def as_before(database):
    """The installation as an earlier version left it."""
    with database.transaction() as connection:
        connection.execute(text(f"ALTER TABLE {versions.TABLE} RENAME TO alembic_version"))
        connection.execute(text(f"ALTER INDEX {versions.TABLE}_pkc RENAME TO alembic_version_pkc"))


def tables(database):
    return value(database, "SELECT string_agg(tablename, ',' ORDER BY tablename) FROM pg_tables WHERE tablename LIKE '%alembic_version'")  # fmt: skip


def test_an_existing_installation_is_carried_over(database):
    wanted = schema.state(database).wanted
    as_before(database)
    assert schema.state(database).fit is schema.Fit.OK

    migrating.upgrade(database)

    assert schema.state(database).fit is schema.Fit.OK
    assert tables(database) == versions.TABLE
    assert value(database, f"SELECT version_num FROM {versions.TABLE}") == wanted


def test_the_revision_of_another_program_is_neither_ours_nor_touched(empty_database_url):
    database = Database(empty_database_url, pool_size=1)
    wanted = schema.state(database).wanted
    with database.transaction() as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:wanted)"), {"wanted": wanted})
    assert schema.state(database).fit is schema.Fit.BEHIND  # it said: ok

    migrating.upgrade(database)
    migrating.downgrade(database, "base")
    migrating.upgrade(database)

    assert schema.state(database).fit is schema.Fit.OK
    assert value(database, "SELECT version_num FROM alembic_version") == wanted
    database.close()


def test_a_table_that_both_programs_wrote_into_is_taken_apart(database):
    as_before(database)
    with database.transaction() as connection:
        connection.execute(text("INSERT INTO alembic_version VALUES ('theirs')"))

    migrating.upgrade(database)

    assert schema.state(database).fit is schema.Fit.OK
    assert value(database, "SELECT string_agg(version_num, ',') FROM alembic_version") == "theirs"


def test_a_database_whose_tables_are_gone_is_damaged(database):
    with database.transaction() as connection:
        connection.execute(text("DROP TABLE audit_log"))

    found = schema.state(database)

    assert (found.fit, found.missing) == (schema.Fit.DAMAGED, ("audit_log",))
    with pytest.raises(Exception, match="lacks audit_log"):
        schema.require(database)


def test_a_table_of_that_name_of_another_program_is_one_sentence(empty_database_url):
    database = Database(empty_database_url, pool_size=1)
    with database.transaction() as connection:
        connection.execute(text("CREATE TABLE runs (id int)"))
    with pytest.raises(DatabaseUnavailable, match="give pidispatch a database of its own"):
        migrating.upgrade(database)
    database.close()


# -- alembic by hand


def alembic(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "alembic", *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (("upgrade", "head"), {}, "DATABASE_URL is not set"),
        (("upgrade", "head"), {"DATABASE_URL": "mysql://h/d"}, "DATABASE_URL: want postgresql://"),
        (("upgrade", "head", "--sql"), {"DATABASE_URL": "postgres://h/d"}, "`--sql` cannot write them down"),
        (("current",), {"DATABASE_URL": "postgres://u@127.0.0.1:1/d"}, "Postgres does not answer"),
    ],
)
def test_alembic_by_hand_says_what_is_wrong_in_a_sentence(words, environment, said):
    done = alembic(*words, **environment)

    assert done.returncode != 0
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_alembic_by_hand_upgrades_and_tells_each_revision(empty_database_url):
    url = empty_database_url.replace("postgresql+psycopg://", "postgres://")

    done = alembic("upgrade", "head", DATABASE_URL=url)

    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "schema: empty -> 0001: The first tables"
    database = Database(empty_database_url, pool_size=1)
    assert schema.state(database).fit is schema.Fit.OK
    assert len(lines) == len(list((ROOT / "migrations" / "versions").glob("0*.py")))
    database.close()


def test_a_pooler_that_dies_is_an_absence_and_its_return_is_met_by_a_new_connection(
    services, database_url, short_directory, caplog
):
    if program() is None:
        pytest.skip("pgbouncer is not installed")
    pooler = Pooler(short_directory / "b", services.postgres.run_dir, server_account())
    pooler.start()
    database = Database(pooler.url(make_url(database_url).database), pool_size=1)
    assert value(database, "SELECT 1") == 1
    # What lies idle in the pool is not asked whether it lives: the transaction itself meets the end.
    event.remove(database._engine, "checkout", _leave_out_the_dead)
    pooler.kill()
    eventually(lambda: pooler.poll() is not None)
    with pytest.raises(DatabaseUnavailable):
        value(database, "SELECT 1")
    pooler.stop()
    pooler.start()
    assert value(database, "SELECT 1") == 1
    assert "Traceback" not in caplog.text
    database.close()
    pooler.stop()


# -- who stands still


def test_a_process_that_stands_still_in_a_transaction_stops_its_host_for_less_than_is_promised(
    database, database_url, monkeypatch
):
    """As one that is stopped, or whose machine swaps: Postgres ends its transaction, and an admission that waits goes on."""
    seconds = connecting.WANTED["idle_in_transaction_session_timeout"]
    assert int(seconds.removesuffix("s")) <= 20
    monkeypatch.setitem(connecting.WANTED, "idle_in_transaction_session_timeout", "1s")
    a_host(database)
    a_run(database)
    still = Database(database_url)
    with pytest.raises(DatabaseUnavailable), still.transaction() as connection:
        connection.execute(text("SELECT 1 FROM hosts FOR UPDATE"))

        assert isinstance(try_next(database)[1], Admitted)
        connection.execute(text("SELECT 1"))
    still.close()
