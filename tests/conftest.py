"""Servers and databases for every test: real ones, made by our own embedded services."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings

from pidispatch.services.account import server_account
from pidispatch.services.cluster import ADMINISTRATOR, ROLE
from pidispatch.services.postgres import EmbeddedPostgres
from pidispatch.services.valkey import EmbeddedValkey
from pidispatch.store import migrating
from pidispatch.store.database import Database
from tests.support.pooler import Pooler, a_pooler
from tests.support.scale import NIGHTLY

# The machine is shared: how long an example takes says nothing. At night there is time for many more of them.
settings.register_profile(
    "quick", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25
)
settings.register_profile("nightly", settings.get_profile("quick"), max_examples=1000)
settings.load_profile("nightly" if NIGHTLY else "quick")

# What takes long, longest first: begun first, so that no process is left alone with it, and left out by `make quick`.
SLOW = (
    "e2e", "fault", "benchmarks", "storm", "attack", "services", "gateway", "runner", "runtime", "cli/test_wait.py",
    "cli/test_coalescing.py", "cli/test_imports.py", "docs/test_adding.py", "escape", "contract",
    "queue", "entrypoints", "flows/test_poisoned.py", "flows/test_watching.py", "flows/test_waiting.py",
    "flows/test_landing.py", "flows/test_chain.py", "store/test_a_year.py", "store/test_breakers.py", "store/test_schema.py",
    "monitoring/test_server.py", "domain/test_schedule.py", "domain/test_pause.py",
    "domain/files/triggers/test_mutations.py", "test_architecture.py", "test_config.py", "test_wheel.py",
)  # fmt: skip
TEMPLATE = "template_pd"
ROOM = 4 * 1024**3
TESTS = Path(__file__).parent
_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_place)
    for item in items:
        if _place(item) < len(SLOW):
            item.add_marker(pytest.mark.slow)


def _place(item: pytest.Item) -> int:
    """In `SLOW`, or after it."""
    path = str(item.path.relative_to(TESTS))
    return next((place for place, name in enumerate(SLOW) if path.startswith(name)), len(SLOW))


@dataclass(frozen=True)
class Services:
    """One Postgres and one Valkey for all tests of a process."""

    postgres: EmbeddedPostgres
    valkey: EmbeddedValkey
    pooler: Pooler | None = None

    def url(self, name: str) -> str:
        """Where a database is: behind PgBouncer when PIDISPATCH_TEST_POOLER asks for it."""
        return self.postgres.url(name) if self.pooler is None else self.pooler.url(name)

    @contextmanager
    def administrator(self) -> Iterator[psycopg.Connection]:
        """A superuser's connection, each statement its own transaction."""
        host = str(self.postgres.run_dir)
        with psycopg.connect(host=host, user=ADMINISTRATOR, dbname="postgres", autocommit=True) as connection:
            yield connection

    def new_database(self, template: str = "template1") -> str:
        name = f"pd_{next(_numbers)}"
        with self.administrator() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} OWNER {ROLE}")
        return name

    def drop_database(self, name: str) -> None:
        with self.administrator() as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def short_directory() -> Iterator[Path]:
    """A directory with a short path that other users may walk through: socket paths hold 107 bytes."""
    yield from _short_directory()


def _short_directory(parent: str = "/tmp") -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="pd-", dir=parent))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _quick_place() -> str:
    """In memory, where there is room: there a test's own database is made in a tenth of the time."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or not os.access(memory, os.W_OK):
        return "/tmp"
    # The server's programs may be copied there too.
    runs_programs = not os.statvfs(memory).f_flag & os.ST_NOEXEC
    return str(memory) if runs_programs and shutil.disk_usage(memory).free > ROOM else "/tmp"


@pytest.fixture(scope="session")
def services() -> Iterator[Services]:
    for folder in _short_directory(_quick_place()):
        account = server_account()
        postgres = EmbeddedPostgres(folder / "postgres", folder / "p", account, durable=False)
        valkey = EmbeddedValkey(folder / "valkey", folder / "v", account)
        try:
            valkey.start()
            postgres.start()
            if os.environ.get("PIDISPATCH_TEST_POOLER"):
                with a_pooler(folder / "b", postgres.run_dir, account) as pooler:
                    yield Services(postgres, valkey, pooler)
            else:
                yield Services(postgres, valkey)
        finally:
            postgres.stop()
            valkey.stop()


@pytest.fixture(scope="session")
def migrated_template(services: Services) -> str:
    """The name of a database at the newest revision, which is only ever copied."""
    with services.administrator() as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE} OWNER {ROLE}")
        database = Database(services.postgres.url(TEMPLATE))
        migrating.upgrade(database)
        database.close()
        connection.execute(f"ALTER DATABASE {TEMPLATE} ALLOW_CONNECTIONS false")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [TEMPLATE]
        )
    return TEMPLATE


@pytest.fixture
def database_url(services: Services, migrated_template: str) -> Iterator[str]:
    """A fresh database of this test's own, migrated, owned by the application's role."""
    name = services.new_database(migrated_template)
    yield services.url(name)
    services.drop_database(name)


@pytest.fixture
def empty_database_url(services: Services) -> Iterator[str]:
    """A fresh database of this test's own without any table."""
    name = services.new_database()
    yield services.url(name)
    services.drop_database(name)


@pytest.fixture
def redis_url(services: Services) -> str:
    """The test process's own Valkey, emptied."""
    assert services.valkey.ask("FLUSHALL") == b"+OK\r\n"
    return services.valkey.url()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated database of this test's own, as the product opens it."""
    database = Database(database_url)
    yield database
    database.close()
