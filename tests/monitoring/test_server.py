"""One process of a host answers on the address; the next takes over when it ends."""

import http.client
import socket
import stat
import threading
import time
from contextlib import contextmanager

import pytest

from pidispatch.domain.text.address import TcpAddress, UnixAddress
from pidispatch.monitoring.server import Answer, serve
from tests.support.patience import LONGER


class Over(http.client.HTTPConnection):
    def __init__(self, address):
        super().__init__("health", timeout=10)
        self.address = address

    def connect(self):
        if isinstance(self.address, UnixAddress):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(self.address.path)
        else:
            self.sock = socket.create_connection((self.address.host, self.address.port))
        self.sock.settimeout(10)


def ask(address, path="/who", method="GET"):
    connection = Over(address)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def until(holds, seconds=10):
    deadline = time.monotonic() + LONGER * seconds
    while True:
        try:
            if holds():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def serving(address, name, **pages):
    stop = threading.Event()
    answers = {"/who": lambda: Answer(200, "text/plain", name.encode())} | pages
    thread = threading.Thread(target=serve, args=(address, answers, stop), kwargs={"retry": 0.05})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture(params=["tcp", "unix"])
def address(request, short_directory):
    if request.param == "unix":
        return UnixAddress(str(short_directory / "health.sock"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return TcpAddress("127.0.0.1", free.getsockname()[1])


def test_it_answers_what_it_knows_and_nothing_else(address):
    with serving(address, "one"):
        until(lambda: ask(address) == (200, b"one"))

        assert ask(address, "/who?now=1") == (200, b"one")
        assert ask(address, "/other")[0] == 404
        assert ask(address, method="POST")[0] == 501


def test_a_second_process_waits_and_takes_over(address):
    with serving(address, "one"):
        until(lambda: ask(address) == (200, b"one"))
        waiting = serving(address, "two")
        waiting.__enter__()
        try:
            for _ in range(5):
                time.sleep(0.05)
                assert ask(address) == (200, b"one")
        except BaseException:
            waiting.__exit__(None, None, None)
            raise
    try:
        until(lambda: ask(address) == (200, b"two"))
    finally:
        waiting.__exit__(None, None, None)


def test_a_page_that_breaks_is_told_without_its_reason(address):
    def broken():
        raise RuntimeError("a secret")

    with serving(address, "one", **{"/broken": broken}):
        until(lambda: ask(address)[0] == 200)
        status, body = ask(address, "/broken")

    assert status == 500
    assert b"secret" not in body


def test_silent_clients_do_not_keep_others_out_for_long(address):
    with serving(address, "one"):
        until(lambda: ask(address)[0] == 200)
        silent = [Over(address) for _ in range(4)]
        for connection in silent:
            connection.connect()

        assert ask(address) == (200, b"one")

        for connection in silent:
            connection.close()


def test_a_dead_process_s_socket_is_replaced_and_only_its_owner_may_ask(short_directory):
    path = short_directory / "health.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    address = UnixAddress(str(path))

    with serving(address, "one"):
        until(lambda: ask(address) == (200, b"one"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


def test_a_file_that_a_mistaken_setting_names_is_kept(short_directory):
    path = short_directory / "notes.txt"
    path.write_text("mine")

    with serving(UnixAddress(str(path)), "one"):
        time.sleep(0.2)

    assert path.read_text() == "mine"
