"""Servers in each state that operators meet, and every command against them."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pidispatch.services.account import server_account
from tests.cli.conftest import bare, command, folder, gitbox, pidispatch  # noqa: F401 - fixtures
from tests.support.pooler import a_pooler, program


@pytest.fixture(scope="session")
def pooler(services, tmp_path_factory):
    """PgBouncer of a distribution, in transaction mode; scripts/setup.sh installs it."""
    if program() is None:
        pytest.skip("pgbouncer is not installed, and only root may install it: apt-get install pgbouncer")
    if services.pooler is not None:
        yield services.pooler
        return
    with a_pooler(
        services.postgres.run_dir.parent / "b", services.postgres.run_dir, server_account()
    ) as made:
        yield made


@contextmanager
def a_mute_server() -> Iterator[int]:
    """A port that accepts connections and never says a word."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    held: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                held.append(listener.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in held:
            each.close()


@pytest.fixture(scope="session")
def mute():
    with a_mute_server() as port:
        yield port


@pytest.fixture(scope="session")
def closed_port():
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def is_root() -> bool:
    return os.geteuid() == 0
