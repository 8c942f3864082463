import socket
import threading
import time

import pytest
from runner.forward import Forwarder

from tests.support.patience import slowness

REQUEST = (
    b"POST /v1/messages?beta=true HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
)


@pytest.fixture
def forwarder(gateway):
    made = Forwarder(gateway.path, port=0, hold=5.0)
    yield made
    made.close()


def ask(port, request=REQUEST):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def test_a_request_goes_through_with_its_query_untouched(gateway, forwarder):
    answer = ask(forwarder.port)

    assert answer.endswith(b'{"echo": 3}')
    assert gateway.paths() == ["/v1/messages?beta=true"]


def test_a_request_is_held_while_the_door_is_closed(gateway, forwarder):
    gateway.shut()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(ask(forwarder.port)))
    asking.start()
    asking.join(0.4)
    assert asking.is_alive()

    gateway.open()
    asking.join(5)

    assert answers[0].startswith(b"HTTP/1.1 200")


def test_a_door_that_stays_closed_ends_the_request(gateway):
    gateway.shut()
    forwarder = Forwarder(gateway.path, port=0, hold=0.2)
    started = time.monotonic()

    with pytest.raises(ConnectionResetError):
        ask(forwarder.port)
    assert time.monotonic() - started < 3 * slowness()
    forwarder.close()


def test_a_client_that_hung_up_is_not_carried_later(gateway):
    gateway.shut()
    forwarder = Forwarder(gateway.path, port=0, hold=30.0)
    with socket.create_connection(("127.0.0.1", forwarder.port)) as connection:
        connection.sendall(REQUEST)
        time.sleep(0.2)
    time.sleep(0.2)
    gateway.open()
    ask(forwarder.port, REQUEST.replace(b"?beta=true", b"?other"))

    assert gateway.paths() == ["/v1/messages?other"]
    forwarder.close()


def test_bytes_flow_both_ways_before_either_side_has_ended(tmp_path, gateway):
    gateway.shut()
    door = socket.socket(socket.AF_UNIX)
    door.bind(gateway.path)
    door.listen()
    forwarder = Forwarder(gateway.path, port=0)
    with door, socket.create_connection(("127.0.0.1", forwarder.port)) as client:
        client.settimeout(5)
        client.sendall(b"one")
        inside, _ = door.accept()
        with inside:
            assert inside.recv(10) == b"one"
            inside.sendall(b"two")
            assert client.recv(10) == b"two"
            client.shutdown(socket.SHUT_WR)
            assert inside.recv(10) == b""
            inside.sendall(b"late")
            assert client.recv(10) == b"late"
        assert client.recv(10) == b""
    forwarder.close()


def test_many_requests_at_once_each_get_their_answer(gateway, forwarder):
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(ask(forwarder.port))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert [answer.endswith(b'{"echo": 3}') for answer in answers] == [True] * 20


def test_a_host_that_has_said_its_last_word_still_hears_the_client(gateway):
    gateway.shut()
    door = socket.socket(socket.AF_UNIX)
    door.bind(gateway.path)
    door.listen()
    forwarder = Forwarder(gateway.path, port=0)
    with door, socket.create_connection(("127.0.0.1", forwarder.port)) as client:
        client.settimeout(5)
        inside, _ = door.accept()
        with inside:
            inside.sendall(b"bye")
            inside.shutdown(socket.SHUT_WR)
            assert client.recv(10) == b"bye"
            assert client.recv(10) == b""
            client.sendall(b"late")
            assert inside.recv(10) == b"late"
    forwarder.close()
