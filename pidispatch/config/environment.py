"""Read the environment of this process, and the `.env` file beneath it."""

import os
from pathlib import Path

from pidispatch.config.loading import load
from pidispatch.config.settings import Settings
from pidispatch.config.sources import effective_environment

ENV_FILE = "PIDISPATCH_ENV_FILE"
ADDRESSES = ("DATABASE_URL", "REDIS_URL", "VALKEY_URL", "VALKEY_PASSWORD")


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


def clock_zone() -> tuple[str, str]:
    """What TZ and /etc/localtime name as the zone of this host's clock, whether or not there is such a zone."""
    named = os.environ.get("TZ", "").removeprefix(":")
    return named, os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2]


def read_settings() -> Settings:
    """The settings of this process. Raises ConfigurationRefused with every problem at once."""
    return load(os.environ, env_file())
