"""Find the services of this installation: configured addresses first, then a running `pidispatch up`."""

import os
from dataclasses import dataclass
from pathlib import Path

from pidispatch.config import Settings, effective_environment, load
from pidispatch.domain.limits.pausesfile import zone_name
from pidispatch.errors import ConfigurationRefused
from pidispatch.services.home import Home

ENV_FILE = "PIDISPATCH_ENV_FILE"
ADDRESSES = ("DATABASE_URL", "REDIS_URL", "VALKEY_URL", "VALKEY_PASSWORD")
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


def env_file() -> Path | None:
    """The file beneath the environment: PIDISPATCH_ENV_FILE, else `.env` here, but never one of a repository.

    An agent may have written what lies in a repository; such a file could name another database, or another
    place for the provider key to go to.
    """
    named = os.environ.get(ENV_FILE)
    if named:
        return Path(named)
    here = Path.cwd()
    if any((folder / ".git").exists() for folder in (here, *here.parents)):
        return None
    return here / ".env"


def environment() -> dict[str, str]:
    """The environment of this process with the file beneath it. It holds secrets."""
    return effective_environment(os.environ, env_file())


def beneath(name: str) -> str | None:
    """What the file beneath the environment says of a name, whether or not the environment wins over it."""
    return effective_environment({}, env_file()).get(name)


def environment_for_others() -> dict[str, str]:
    """The environment of this process for a program that needs no secret of ours; nothing of the file is in it."""
    return {name: value for name, value in os.environ.items() if name not in ADDRESSES}


def host_zone() -> str:
    """The zone of this host's clock: TZ, else what /etc/localtime links to, else UTC."""
    named = os.environ.get("TZ", "").removeprefix(":")
    linked = os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]
    return zone_name(named) or zone_name(linked) or "UTC"


def read_settings() -> Settings:
    """The settings of this process. Raises ConfigurationRefused with every problem at once."""
    return load(os.environ, env_file())


def home_of(settings: Settings) -> Home:
    return Home(settings.home, settings.run_dir)


def database_address(settings: Settings) -> str:
    """Where Postgres is, for those who need nothing else. Raises ConfigurationRefused; it may hold a password."""
    if settings.database_url is not None:
        return settings.database_url.get_secret_value()
    running = home_of(settings).running_urls()
    if running is None:
        raise ConfigurationRefused([NO_DATABASE.format(home=settings.home)])
    return running.database


def addresses(settings: Settings) -> Addresses:
    """Raises ConfigurationRefused, with the way out, when neither is configured nor running."""
    running = home_of(settings).running_urls()
    database = settings.database_url.get_secret_value() if settings.database_url else None
    redis = settings.broker_url.get_secret_value() if settings.broker_url else None
    database = database or (running.database if running else None)
    redis = redis or (running.redis if running else None)
    if database is None or redis is None:
        raise ConfigurationRefused([NOBODY_RUNS.format(home=settings.home)])
    return Addresses(database, redis)
