"""Open what one process of an installation talks to: each part when it is first asked for, and close it once.

To import this module, or to hold an `Installation`, costs next to nothing: a command that reads rows loads no Redis,
no Docker and no Alembic.
"""

import contextlib
import os
import pwd
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

from pidispatch.config import Settings
from pidispatch.config.environment import read_settings
from pidispatch.errors import ConfigurationRefused, QueueUnavailable

if TYPE_CHECKING:
    from pidispatch.domain.health.health import RedisFacts
    from pidispatch.gateway.client import ControlDoors
    from pidispatch.queue.bells import RedisBell
    from pidispatch.runtime.dockerruntime import DockerRuntime
    from pidispatch.services.home import Home
    from pidispatch.store.database import Database
    from pidispatch.store.schema import SchemaState

NOBODY_RUNS = (
    "no services: DATABASE_URL and REDIS_URL are not set, and no `pidispatch up` runs in {home}; "
    "run `pidispatch up`, or set both addresses"
)
NO_DATABASE = "no database: DATABASE_URL is not set, and no `pidispatch up` runs in {home}; run `pidispatch up`, or set DATABASE_URL"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where Postgres and Redis are; they may hold passwords, so they are never printed."""

    database: str
    redis: str


class Installation:
    """What a process holds of its installation, by its settings.

    `application` is the name that Postgres shows for its connections, of which the pool keeps `connections`. `where` is
    for who knows the addresses already. `engine_seconds`: how long an answer of the engine is waited for, by default as
    long as a worker waits.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        application: str = "pidispatch cli",
        connections: int = 1,
        where: Addresses | None = None,
        engine_seconds: int | None = None,
    ) -> None:
        self.settings = settings
        self._application = application
        self._connections = connections
        self._where = where
        self._engine_seconds = engine_seconds
        self._opened = contextlib.ExitStack()

    @classmethod
    def here(cls, *, engine_seconds: int | None = None) -> Self:
        """That of a command, by this process's own settings. Raises ConfigurationRefused."""
        return cls(read_settings(), engine_seconds=engine_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what was opened, the last first."""
        self._opened.close()

    @property
    def host(self) -> str:
        return self.settings.worker_name

    @property
    def actor(self) -> str:
        """Who acts, for the audit log: whom this process runs as, and where. An environment could claim anything."""
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            user = str(os.getuid())
        return f"{user}@{self.host}"

    @property
    def home(self) -> "Home":
        return home_of(self.settings)

    @cached_property
    def addresses(self) -> Addresses:
        """Raises ConfigurationRefused, with the way out, when neither is configured nor running."""
        return self._where or addresses(self.settings)

    @property
    def database_address(self) -> str:
        """Where Postgres is, for who needs no Redis. Raises ConfigurationRefused; it may hold a password."""
        if self._where is not None:
            return self._where.database
        if self.settings.database_url is not None:
            return self.settings.database_url.get_secret_value()
        running = self.home.running_urls()
        if running is None:
            raise ConfigurationRefused([NO_DATABASE.format(home=self.settings.home)])
        return running.database

    @cached_property
    def any_database(self) -> "Database":
        """The database whatever its schema, for what looks after that. Raises ConfigurationRefused."""
        from pidispatch.store.database import Database

        opened = Database(self.database_address, pool_size=self._connections, application=self._application)
        self._opened.callback(opened.close)
        return opened

    @cached_property
    def database(self) -> "Database":
        """The database, at exactly this version's schema when it was first asked for.

        Raises ConfigurationRefused, SchemaDiffers, DatabaseUnavailable.
        """
        from pidispatch.store import schema

        schema.require(self.any_database)
        return self.any_database

    def upgrade(self, progress: Callable[[str], None]) -> "SchemaState":
        """Bring the schema to this version. Raises SchemaDiffers when it is ahead, or damaged."""
        from pidispatch.store import migrating

        return migrating.upgrade(self.any_database, progress=progress)

    @cached_property
    def bell(self) -> "RedisBell":
        """The bell of a person, who waits for Redis for 2 s at most. Raises ConfigurationRefused."""
        from pidispatch.queue.bells import RedisBell
        from pidispatch.queue.broker import make_broker
        from pidispatch.queue.server import INTERACTIVE

        broker = make_broker(self.addresses.redis, within=INTERACTIVE)
        self._opened.callback(broker.close)
        return RedisBell(broker)

    def ring(self, act: "Callable[[RedisBell], object]") -> bool:
        """Wake workers. False without Redis: they find out by themselves, within seconds."""
        try:
            act(self.bell)
        except (ConfigurationRefused, QueueUnavailable):
            return False
        return True

    def redis_facts(self) -> "RedisFacts | None":
        """How Redis is, that it does not answer within 2 s included. None where none is named: reading needs none."""
        try:
            url = self.addresses.redis
        except ConfigurationRefused:
            return None
        from pidispatch.domain.health.health import RedisFacts
        from pidispatch.queue.server import INTERACTIVE, redis_facts

        try:
            return redis_facts(url, within=INTERACTIVE)
        except QueueUnavailable as error:
            return RedisFacts(problem=str(error))

    @cached_property
    def gateway(self) -> "ControlDoors":
        """The gateway of this host; whether it answers shows when it is asked."""
        from pidispatch.gateway.client import NAME, ControlDoors

        return ControlDoors(self.settings.run_dir / NAME)

    def runtime(self) -> "DockerRuntime":
        """The engine that boxes run in. Here alone it is chosen, and so far there is one kind."""
        return self._docker

    @cached_property
    def _docker(self) -> "DockerRuntime":
        from pidispatch.runtime.dockerruntime import DockerRuntime

        opened = DockerRuntime(self.settings.run_dir, answer_seconds=self._engine_seconds)
        self._opened.callback(opened.close)
        return opened


def home_of(settings: Settings) -> "Home":
    from pidispatch.services.home import Home

    return Home(settings.home, settings.run_dir)


def addresses(settings: Settings) -> Addresses:
    """Configured addresses first, then those of a running `pidispatch up`.

    Raises ConfigurationRefused, with the way out, when neither is there.
    """
    database = settings.database_url.get_secret_value() if settings.database_url else None
    redis = settings.broker_url.get_secret_value() if settings.broker_url else None
    if database is None or redis is None:
        running = home_of(settings).running_urls()
        database = database or (running.database if running else None)
        redis = redis or (running.redis if running else None)
    if database is None or redis is None:
        raise ConfigurationRefused([NOBODY_RUNS.format(home=settings.home)])
    return Addresses(database, redis)
