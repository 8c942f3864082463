"""Find the services of this installation: configured addresses first, then a running `pidispatch up`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pidispatch.config import Settings, load
from pidispatch.errors import ConfigurationRefused
from pidispatch.services.home import Home

DOTENV = Path(".env")  # in the working directory
NOBODY_RUNS = (
    "no services: DATABASE_URL and REDIS_URL are not set, and no `pidispatch up` runs in {home}; "
    "run `pidispatch up`, or set both addresses"
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where Postgres and Redis are; they may hold passwords, so they are never printed."""

    database: str
    redis: str


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of this process: its environment, and `.env` in its working directory."""
    return load(os.environ if environ is None else environ, DOTENV)


def home_of(settings: Settings) -> Home:
    return Home(settings.home, settings.run_dir)


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
