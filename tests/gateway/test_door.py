"""The go, the report, and what a box may not do on its own socket."""

import hashlib
import hmac
import json
import stat
import threading

import pytest

from pidispatch.domain.providers.calls import Ticket
from pidispatch.gateway.http.rooms import Limits
from tests.gateway.parts import CONTAINER, UnixClient, raw_client

REPORT = {
    "v": 1, "attempt": 1, "code": 0, "reason": "completed", "turns": 4, "truncated": False, "message": None,
    "tokens": {"total": 10}, "context": None, "session": None, "notes": [], "pi": "1.6.0",
}  # fmt: skip


@pytest.fixture
def make_house(make_house):
    """Houses whose runs have not got their go: here it is what is tested."""

    def make(*args, **more):
        house = make_house(*args, **more)
        house.gives_go = False
        return house

    return make


def ask_go(client, attempt=1, container=CONTAINER[:12]):
    return client.ask("POST", "/go", {"attempt": attempt, "container": container})


def signed(key: str, body: bytes) -> dict[str, str]:
    return {"x-pidispatch-signature": hmac.new(key.encode(), body, hashlib.sha256).hexdigest()}


def test_the_go_is_given_once_with_a_key(make_house):
    client = make_house().client()

    status, first = ask_go(client)
    again = ask_go(client)

    assert status == 200
    assert first["go"] is True
    assert len(first["key"]) == 64
    assert set(first["key"]) <= set("0123456789abcdef")
    assert again == (403, {"go": False, "reason": "refused"})


def test_of_many_who_ask_at_once_one_gets_the_go(make_house):
    path = make_house().open()
    statuses = []

    def ask():
        client = UnixClient(path)
        statuses.append(ask_go(client)[0])
        client.close()

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200, *[403] * 15]


@pytest.mark.parametrize(
    ("attempt", "container", "reason"),
    [
        (2, CONTAINER, "stale-attempt"),
        (True, CONTAINER, "stale-attempt"),
        ("1", CONTAINER, "stale-attempt"),
        (1, "f" * 12, "refused"),
        (1, CONTAINER[:11], "malformed"),
        (1, None, "malformed"),
        (1, "../../etc/passwd", "malformed"),
    ],
)
def test_a_go_for_another_attempt_or_container_is_refused(make_house, attempt, container, reason):
    house = make_house()

    answer = ask_go(house.client(), attempt, container)

    assert answer == (403, {"go": False, "reason": reason})
    assert not house.tickets.runs[7].go_given


def test_while_the_database_is_away_the_go_says_to_ask_again(make_house):
    house = make_house()
    client = house.client()
    house.switch.away = True

    assert ask_go(client)[0] == 503


def test_a_box_that_is_not_recorded_yet_waits_for_its_go(make_house):
    house = make_house()
    client = house.client()
    run = house.tickets.runs[7]
    run.preparing, looks = True, []
    is_preparing = house.tickets.is_preparing

    def recorded_at_the_third_look(run_id, attempt):
        looks.append(run.preparing)
        run.preparing = len(looks) < 3
        return is_preparing(run_id, attempt)

    house.tickets.is_preparing = recorded_at_the_third_look

    status, answer = ask_go(client)

    assert (status, answer["go"]) == (200, True)
    assert looks == [True, True, True]


def test_a_box_whose_start_was_given_up_meanwhile_gets_no_go(make_house):
    house = make_house()
    client = house.client()
    run = house.tickets.runs[7]
    run.preparing, looks = True, []

    def given_up(run_id, attempt):
        looks.append(run_id)
        run.live = len(looks) < 3
        return run.live

    house.tickets.is_preparing = given_up

    status, answer = ask_go(client)

    assert (status, answer) == (403, {"go": False, "reason": "refused"})
    assert not run.go_given


def test_a_signed_report_is_kept_as_verified(make_house):
    house = make_house()
    client = house.client()
    key = ask_go(client)[1]["key"]
    body = json.dumps(REPORT).encode()

    status, _ = client.ask("POST", "/report", body, signed(key, body))

    assert status == 204
    assert house.tickets.reports == {(7, 1): (REPORT, True)}


@pytest.mark.parametrize(
    "headers", [{}, {"x-pidispatch-signature": "0" * 64}, {"x-pidispatch-signature": "ÿ"}]
)
def test_an_unsigned_report_is_kept_as_unverified(make_house, headers):
    house = make_house()
    client = house.client()
    ask_go(client)

    status, _ = client.ask("POST", "/report", REPORT, headers)

    assert status == 204
    assert house.tickets.reports[7, 1] == (REPORT, False)


def test_a_signature_over_other_bytes_verifies_nothing(make_house):
    house = make_house()
    client = house.client()
    key = ask_go(client)[1]["key"]

    client.ask("POST", "/report", REPORT, signed(key, b"{}"))

    assert house.tickets.reports[7, 1][1] is False


def test_a_report_is_verified_by_a_restarted_gateway(make_house):
    first = make_house()
    client = first.client()
    key = ask_go(client)[1]["key"]
    client.close()
    first.gateway.stop()
    first.gateway.stop = lambda: None
    second = make_house(like=first)
    client = UnixClient(second.run_dir / "g" / "7" / "s")
    body = json.dumps(REPORT).encode()

    client.ask("POST", "/report", body, signed(key, body))

    client.close()
    assert second.tickets.reports[7, 1][1] is True


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b"[" * 60_000, b'{"v":2,"attempt":1}', b'{"v":1,"attempt":2}']
)
def test_a_malformed_report_is_refused(make_house, body):
    house = make_house()

    assert house.client().ask("POST", "/report", body)[0] == 400
    assert house.tickets.reports == {}


def test_a_report_over_its_limit_is_refused(make_house):
    assert make_house().client().ask("POST", "/report", b" " * 5_000_000)[0] == 413


def test_a_box_that_floods_with_unsigned_reports_is_stopped(make_house):
    client = make_house().client()

    statuses = [client.ask("POST", "/report", REPORT)[0] for _ in range(20)]

    assert statuses == [204] * 16 + [429] * 4


def test_a_run_without_caps_is_near_none(make_house):
    status, budget = make_house().client().ask("GET", "/budget")

    assert (status, budget["v"], budget["share"], budget["of"]) == (200, 1, 0.0, None)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/"), ("GET", "/go"), ("POST", "/runs/7"), ("PUT", "/healthz")]
)
def test_everything_else_is_not_found(make_house, method, path):
    status, answer = make_house().client().ask(method, path, {})

    assert status == 404
    assert answer["error"]["type"] == "not_found"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.0\r\n\r\n", 400),
        (b"CONNECT /go HTTP/1.1\r\n\r\n", 400),
        (b"GET https://x/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\na: b\r\n folded\r\n\r\n", 400),
        (b"POST /go HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (b"POST /go HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST /go HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST /go HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n", 400),
        (b"POST /go HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 67108865\r\n\r\n", 413),
        (b"POST /v1/messages HTTP/1.1\r\ncontent-length: 999999999999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 201 + b"\r\n", 431),
    ],
)
def test_a_request_that_is_not_plain_http_is_answered_and_hung_up_on(make_house, data, status):
    sock = raw_client(make_house().open())

    sock.sendall(data)

    answer = b""
    while piece := _recv(sock):
        answer += piece
    sock.close()
    assert answer.startswith(b"HTTP/1.1 %d " % status)


def _recv(sock):
    try:
        return sock.recv(65536)
    except ConnectionError:
        return b""


def test_a_chunked_body_and_expect_continue_are_read(make_house):
    sock = raw_client(make_house().open())
    body = json.dumps({"attempt": 1, "container": CONTAINER}).encode()

    sock.sendall(b"POST /go HTTP/1.1\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n")
    assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    for byte in body:
        sock.sendall(b"1;x=y\r\n%c\r\n" % byte)
    sock.sendall(b"0\r\ntrailer: t\r\n\r\n")

    assert sock.recv(1000).startswith(b"HTTP/1.1 200 OK\r\n")
    sock.close()


def test_one_box_cannot_hold_all_connections(make_house):
    house = make_house(limits=Limits(run_connections=20))
    path = house.open()
    held = [raw_client(path) for _ in range(20)]
    for sock in held:
        sock.sendall(b"GET /budget HTTP/1.1\r\n\r\n")
        assert sock.recv(1000)

    extra = raw_client(path)

    assert _recv(extra).startswith(b"HTTP/1.1 503 ")
    assert _recv(extra) == b""
    other = house.client(run_id=8)
    assert other.ask("GET", "/budget")[0] == 200
    for sock in (*held, extra):
        sock.close()


def test_the_socket_is_open_to_any_uid_below_folders_that_are_not(make_house):
    path = make_house().open()

    modes = [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent, path.parent.parent)]

    assert modes == [0o666, 0o711, 0o700]


def test_a_socket_is_made_again_in_the_same_directory(make_house):
    house = make_house()
    directory = house.open().parent
    inode = directory.stat().st_ino

    house.doors.close(7)
    closed = not (directory / "s").exists()
    house.doors.open(7)

    assert closed
    assert directory.stat().st_ino == inode
    client = UnixClient(directory / "s")
    assert client.ask("GET", "/budget")[0] == 200
    client.close()


def test_a_second_attempt_takes_the_door_over_from_the_first(make_house):
    house = make_house()
    old = raw_client(house.open())

    house.tickets.add(Ticket(7, "local:7", 2, "scripted"), CONTAINER)
    path = house.doors.open(7)

    assert _recv(old) == b""
    old.close()
    client = UnixClient(house.run_dir / "g" / "7" / "s")
    assert path == str(house.run_dir / "g" / "7")
    assert ask_go(client, attempt=1)[1]["reason"] == "stale-attempt"
    assert ask_go(client, attempt=2)[0] == 200
    client.close()
