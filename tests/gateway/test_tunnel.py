"""What a run reaches through its door, what it does not, and what is kept of both."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from pidispatch.domain.egress.allowlist import Allowlist, EgressUse, Reason, parse_allowlist
from pidispatch.domain.egress.hostname import Target
from pidispatch.domain.providers.calls import Ticket
from pidispatch.errors import DatabaseUnavailable
from pidispatch.gateway.egress.log import EgressLog
from pidispatch.gateway.egress.tunnel import Egress
from pidispatch.gateway.http.http1 import HttpRefused, parse_head
from pidispatch.gateway.http.rooms import USUAL_LIMITS, Limits
from tests.gateway.parts import CONTAINER, raw_client, read_until
from tests.support.outside import ANOTHER, PUBLIC, Internet, Server, echo
from tests.support.patience import until

LIST = parse_allowlist(
    b"example.com\n.sub.example.org:8443\nprivate.example\nrebind.example\n9.9.9.9\n", "list"
)

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Uses:
    """The store of evidence, in memory; it can be away."""

    def __init__(self) -> None:
        self.kept: list[EgressUse] = []
        self.away = False

    def add(self, run_id: int, uses: Sequence[EgressUse]) -> None:
        if self.away:
            raise DatabaseUnavailable("switched off")
        self.kept += uses

    def sums(self) -> dict[tuple[str, int, bool, str], tuple[int, int, int]]:
        found: dict[tuple[str, int, bool, str], tuple[int, int, int]] = {}
        for use in self.kept:
            key = (use.host, use.port, use.allowed, use.reason)
            old = found.get(key, (0, 0, 0))
            found[key] = (old[0] + use.connections, old[1] + use.bytes_up, old[2] + use.bytes_down)
        return found


class Town:
    """A gateway, the internet it sees, and the run's socket."""

    def __init__(self, house, internet, uses, path):
        self.house, self.internet, self.uses, self.path = house, internet, uses, path

    def ask(self, request: bytes) -> bytes:
        """The whole answer to one request that ends its connection."""
        with self.connection() as sock:
            sock.sendall(request)
            return read_all(sock)

    def status(self, request: bytes) -> int:
        return int(self.ask(request).split(b" ", 2)[1])

    @contextlib.contextmanager
    def connection(self) -> Iterator[socket.socket]:
        sock = raw_client(self.path)
        try:
            yield sock
        finally:
            sock.close()

    @contextlib.contextmanager
    def tunnel(self, target: bytes = b"example.com:443") -> Iterator[socket.socket]:
        with self.connection() as sock:
            sock.sendall(connect(target))
            assert sock.recv(len(ESTABLISHED), socket.MSG_WAITALL) == ESTABLISHED  # its host may speak first
            yield sock

    def evidence(self):
        """What is known once the door is closed."""
        self.house.doors.close(7)
        return self.uses.sums()


def read_all(sock: socket.socket) -> bytes:
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


def connect(target: bytes) -> bytes:
    return b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n\r\n" % (target, target)


def reason_of(answer: bytes) -> str:
    return json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"].removeprefix("egress_")


@pytest.fixture
def make_town(make_house):
    servers = []

    def make(serve=echo, allowed=LIST, names=None, own=(), limits=USUAL_LIMITS, **more):
        server = Server(serve)
        servers.append(server)
        names = names or {
            "example.com": [[PUBLIC]],
            "a.sub.example.org": [[ANOTHER]],
            "private.example": [["10.0.0.1"]],
            "both.example": [[PUBLIC, "192.168.1.1"]],
            "rebind.example": [[PUBLIC], ["127.0.0.1"]],
            "own.example": [[PUBLIC]],
        }
        internet, uses = Internet(names, server.address), Uses()
        evidence = EgressLog(uses, flush_seconds=60)
        egress = Egress(lambda: allowed, outside=internet.outside(), evidence=evidence, **more)
        house = make_house(egress=egress, limits=limits)
        house.tickets.add(Ticket(7, "local:7", 1, "scripted", egress=tuple(own)), CONTAINER)
        house.tickets.runs[7].go_given = True
        path = house.run_dir / "g" / "7" / "s"
        house.doors.open(7)
        return Town(house, internet, uses, path)

    yield make
    for server in servers:
        server.close()


def test_a_listed_host_is_reached_and_its_bytes_are_counted(make_town):
    town = make_town()

    with town.tunnel() as sock:
        sock.sendall(b"hello")
        assert sock.recv(100) == b"hello"

    assert town.internet.dialled == [(PUBLIC, 443)]
    assert town.evidence() == {("example.com", 443, True, "listed"): (1, 5, 5)}


def test_what_came_right_behind_the_request_is_the_tunnels_first(make_town):
    town = make_town()

    with town.connection() as sock:
        sock.sendall(connect(b"EXAMPLE.com.:443") + b"early")
        assert read_until(sock, b"early").endswith(b"\r\n\r\nearly")


def test_pips_http_1_0_is_taken_for_a_tunnel_alone(make_town):
    town = make_town()

    with town.connection() as sock:
        sock.sendall(b"CONNECT example.com:443 HTTP/1.0\r\n\r\n")
        assert read_until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert town.status(b"GET http://example.com/ HTTP/1.0\r\n\r\n") == 400


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (b"example.org:443", "not-listed"),
        (b"notexample.com:443", "not-listed"),
        (b"www.example.com:443", "not-listed"),
        (b"example.com:22", "port"),
        (b"a.sub.example.org:443", "port"),
        (b"127.0.0.1:443", "private-address"),
        (b"[::1]:443", "private-address"),
        (b"[::ffff:10.0.0.1]:443", "private-address"),
        (b"169.254.169.254:80", "private-address"),
        (b"93.184.215.14:443", "not-listed"),
        (b"private.example:443", "private-address"),
        (b"2130706433:80", "malformed"),
        (b"0x7f.1:80", "malformed"),
        (b"0177.0.0.1:80", "malformed"),
        (b"example.com", "malformed"),
        (b"example.com:0", "malformed"),
        (b"example.com:99999", "malformed"),
        (b"::1:443", "malformed"),
    ],
)
def test_what_is_not_listed_or_not_public_is_refused_and_kept(make_town, target, reason):
    town = make_town()

    answer = town.ask(connect(target))

    assert answer.startswith(b"HTTP/1.1 400 " if reason == "malformed" else b"HTTP/1.1 403 ")
    assert reason_of(answer) == reason
    assert town.internet.dialled == []
    ((key, sums),) = town.evidence().items()
    assert (key[2:], sums) == ((False, reason), (1, 0, 0))


def test_a_refusal_says_what_an_operator_would_write(make_town):
    town = make_town()

    assert b"the line `example.org`" in town.ask(connect(b"example.org:443"))
    assert b"the line `example.org:22`" in town.ask(connect(b"example.org:22"))
    assert b"the line `example.com:22`" in town.ask(connect(b"example.com:22"))


def test_one_private_answer_among_public_ones_refuses_them_all(make_town):
    town = make_town(allowed=parse_allowlist(b"both.example", "list"))

    assert reason_of(town.ask(connect(b"both.example:443"))) == "private-address"
    assert town.internet.dialled == []


def test_a_name_is_resolved_once_for_each_connection_and_that_address_is_dialled(make_town):
    town = make_town()

    with town.tunnel(b"rebind.example:443"):
        assert town.internet.lookups == ["rebind.example"]
        assert town.internet.dialled == [(PUBLIC, 443)]
    assert reason_of(town.ask(connect(b"rebind.example:443"))) == "private-address"
    assert town.internet.dialled == [(PUBLIC, 443)]


def test_a_host_that_does_not_exist_or_answer_is_told_as_that(make_town):
    town = make_town(names={"private.example": [[PUBLIC]]})
    town.internet.server = None

    assert town.status(connect(b"example.com:443")) == 502
    assert town.status(connect(b"private.example:443")) == 502

    assert {key[3] for key in town.evidence()} == {"no-such-host", "unreachable"}


def test_a_run_has_hosts_of_its_own(make_town):
    town = make_town(allowed=Allowlist(), own=["own.example", "*.bad"])

    with town.tunnel(b"own.example:443"):
        pass
    assert town.status(connect(b"example.com:443")) == 403


def test_with_egress_off_any_public_host_is_reached_and_kept_and_no_other(make_town):
    town = make_town(
        allowed=Allowlist(everything=True), names={"x.example": [[PUBLIC]], "y.example": [["::1"]]}
    )

    with town.tunnel(b"x.example:22"):
        pass
    with town.tunnel(b"93.184.215.14:443"):
        pass
    assert reason_of(town.ask(connect(b"y.example:443"))) == "private-address"
    assert reason_of(town.ask(connect(b"192.168.0.1:443"))) == "private-address"
    assert ("x.example", 22, True, "open") in town.evidence()


def test_an_edit_of_the_list_holds_from_the_next_connection_on(make_house):
    lists = [Allowlist(), LIST]
    server = Server(echo)
    internet = Internet({"example.com": [[PUBLIC]]}, server.address)
    house = make_house(egress=Egress(lambda: lists[0], outside=internet.outside()))
    town = Town(house, internet, Uses(), house.open())

    assert town.status(connect(b"example.com:443")) == 403
    lists.pop(0)
    with town.tunnel():
        pass
    server.close()


def test_each_direction_ends_on_its_own(make_town):
    def count(sock):
        size = 0
        while data := sock.recv(65536):
            size += len(data)
        sock.sendall(b"%d" % size)

    town = make_town(count)

    with town.tunnel() as sock:
        sock.sendall(b"x" * 1_000_000)
        sock.shutdown(socket.SHUT_WR)
        assert read_all(sock) == b"1000000"


def test_a_host_that_has_said_its_last_word_still_listens(make_town):
    heard = []

    def speak_first(sock):
        sock.sendall(b"hello")
        sock.shutdown(socket.SHUT_WR)
        heard.append(read_all(sock))

    town = make_town(speak_first)

    with town.tunnel() as sock:
        assert read_all(sock) == b"hello"
        sock.sendall(b"and goodbye")
    until(lambda: heard == [b"and goodbye"])


def test_a_slow_reader_slows_its_host_instead_of_filling_memory(make_town):
    sent = []

    def pour(sock):
        for _ in range(4096):
            sock.sendall(b"x" * 65536)
            sent.append(65536)

    town = make_town(pour)

    with town.tunnel() as sock:
        settled = 0
        while settled != len(sent) or not sent:
            settled = len(sent)
            time.sleep(0.3)
        assert sum(sent) < 64 * 1024 * 1024
        total = 0
        while total < 4096 * 65536:
            total += len(sock.recv(1 << 20))
    assert town.evidence() == {("example.com", 443, True, "listed"): (1, 0, 4096 * 65536)}


def test_a_tunnel_in_which_nothing_moves_ends(make_town):
    town = make_town(idle_seconds=0.2)

    with town.tunnel() as sock:
        assert read_all(sock) == b""


def test_a_client_that_goes_ends_its_tunnel(make_town):
    ended = threading.Event()

    def wait(sock):
        read_all(sock)
        ended.set()

    town = make_town(wait)
    with town.tunnel():
        pass

    assert ended.wait(10)


def test_the_doors_end_cuts_its_tunnels(make_town):
    town = make_town()

    with town.tunnel() as sock:
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"
        town.house.doors.close(7)
        assert read_all(sock) == b""
    assert town.uses.sums() == {("example.com", 443, True, "listed"): (1, 1, 1)}


def test_a_run_has_so_many_tunnels_and_its_model_calls_go_on_beside_them(make_town):
    town = make_town(limits=Limits(run_tunnels=2))

    with town.tunnel(), town.tunnel():
        answer = town.ask(connect(b"example.com:443"))
        assert (answer[:13], reason_of(answer)) == (b"HTTP/1.1 503 ", "too-many")
        assert town.status(b"GET /budget HTTP/1.1\r\nconnection: close\r\n\r\n") == 200
    until(lambda: town.status(connect(b"example.org:443")) == 403)
    with town.tunnel():
        pass


def test_a_slow_resolver_holds_nobody_else_up(make_house):
    asked = threading.Event()
    go_on = threading.Event()

    def slow(host, port):
        asked.set()
        go_on.wait(20)
        return []

    internet = Internet({})
    internet.resolve = slow
    house = make_house(egress=Egress(lambda: LIST, outside=internet.outside()))
    town = Town(house, internet, Uses(), house.open())
    with town.connection() as waits:
        waits.sendall(connect(b"example.com:443"))
        assert asked.wait(10)

        assert town.status(b"GET /budget HTTP/1.1\r\nconnection: close\r\n\r\n") == 200

        go_on.set()
        assert read_until(waits, b"\r\n\r\n").startswith(b"HTTP/1.1 502 ")


# Plain http://


def answer_with(data, seen):
    def serve(sock):
        seen.append(read_until(sock, b"\r\n\r\n"))
        length = next(
            (int(line[15:]) for line in seen[-1].split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        while len(seen[-1].partition(b"\r\n\r\n")[2]) < length:
            seen[-1] += sock.recv(65536)
        sock.sendall(data)

    return serve


def test_a_plain_request_goes_to_its_host_without_what_was_for_the_hop(make_town):
    seen = []
    answer = b"HTTP/1.1 200 Fine\r\nKeep-Alive: 5\r\nConnection: x-hop\r\ncontent-length: 2\r\nx-hop: 1\r\nx-end: 1\r\n\r\nok"
    town = make_town(answer_with(answer, seen))

    got = town.ask(
        b"POST http://Example.COM/a/b?c=d HTTP/1.1\r\nhost: other.example\r\nproxy-authorization: Basic eA==\r\n"
        b"proxy-connection: keep-alive\r\nconnection: x-mine\r\nx-mine: 1\r\nx-kept: 2\r\ncontent-length: 3\r\n\r\nabc"
        b"GET http://example.com/smuggled HTTP/1.1\r\n\r\n"
    )

    assert seen == [
        b"POST /a/b?c=d HTTP/1.1\r\nhost: example.com\r\nx-kept: 2\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc"
    ]
    assert got == b"HTTP/1.1 200 Fine\r\ncontent-length: 2\r\nx-end: 1\r\nconnection: close\r\n\r\nok"
    assert town.internet.dialled == [(PUBLIC, 80)]
    ((key, (connections, up, down)),) = town.evidence().items()
    assert key == ("example.com", 80, True, "listed")
    assert (connections, up, down) == (1, len(seen[0]), len(answer))


def test_a_chunked_answer_comes_through_as_it_is_and_interim_ones_do_not(make_town):
    body = b"3\r\nabc\r\n0\r\n\r\n"
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    town = make_town(answer_with(head + body, []))

    got = town.ask(b"GET http://example.com HTTP/1.1\r\n\r\n")

    assert got == b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n" + body


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://example.org/", 403),
        (b"http://10.0.0.1/", 403),
        (b"http://[::1]/", 403),
        (b"http://private.example/", 403),
        (b"http://user@example.com/", 400),
        (b"http://example.com#x", 400),
        (b"http:///go", 400),
        (b"http://2130706433/", 400),
        (b"https://example.com/", 400),
        (b"HTTP://example.com/", 400),
        (b"ftp://example.com/", 400),
        (b"*", 400),
    ],
)
def test_a_plain_request_to_what_is_blocked_is_refused(make_town, target, status):
    town = make_town()

    assert town.status(b"GET %b HTTP/1.1\r\n\r\n" % target) == status
    assert town.internet.dialled == []


@pytest.mark.parametrize("path", [b"/go", b"/budget", b"/report", b"/v1/messages"])
def test_a_host_named_before_a_path_of_ours_makes_it_none_of_ours(make_town, path):
    town = make_town()

    assert town.status(b"POST http://elsewhere.example%b HTTP/1.1\r\n\r\n" % path) == 403


def test_the_control_socket_takes_no_proxy_requests(make_town):
    town = make_town()

    with contextlib.closing(raw_client(town.house.run_dir / "gateway.sock")) as sock:
        sock.sendall(connect(b"example.com:443"))
        assert sock.recv(100).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "answer",
    [b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 101 Go\r\n\r\n", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000],
)
def test_a_host_that_does_not_speak_http_is_told_as_that(make_town, answer):
    town = make_town(answer_with(answer, []))

    assert town.status(b"GET http://example.com/ HTTP/1.1\r\n\r\n") == 502


@pytest.mark.parametrize(
    "raw",
    [
        b"CONNECT example.com:443 HTTP/1.1\r\ncontent-length: 5",
        b"CONNECT example.com:443 HTTP/1.1\r\ntransfer-encoding: chunked",
        b"CONNECT  example.com:443 HTTP/1.1",
        b"CONNECT example.com:443 HTTP/1.2",
        b"CONNECT http://example.com HTTP/1.1",
        b"CONNECT exa\x00mple.com:443 HTTP/1.1",
        b"CONNECT \xc3\xa4.com:443 HTTP/1.1",
        b"connect example.com:443 HTTP/1.1",
        b"GET example.com:443 HTTP/1.1",
        b"GET http://example.com/a b HTTP/1.1",
    ],
)
def test_what_is_no_request_of_a_proxy_is_refused(raw):
    with pytest.raises(HttpRefused):
        parse_head(raw)


# Evidence


def test_a_loop_of_a_run_makes_a_bounded_number_of_rows_and_hides_nothing_allowed():
    uses = Uses()
    evidence = EgressLog(uses, flush_seconds=60)
    for number in range(5000):
        evidence.note(1, target(f"h{number}.example"), Reason.NOT_LISTED, allowed=False, connections=1)
    evidence.note(1, target("example.com"), Reason.LISTED, allowed=True, connections=1)
    evidence.close()

    sums = uses.sums()
    assert len(sums) == 102
    assert sums["*", 0, False, "other"] == (4900, 0, 0)
    assert sums["example.com", 443, True, "listed"] == (1, 0, 0)


def test_evidence_waits_while_the_database_is_away_and_is_written_once():
    uses = Uses()
    evidence = EgressLog(uses, flush_seconds=60)
    uses.away = True
    evidence.note(1, target("example.com"), Reason.LISTED, allowed=True, connections=1, up=2)
    assert not evidence.flush(1)
    evidence.note(1, target("example.com"), Reason.LISTED, allowed=True, connections=1, up=3)
    uses.away = False

    assert evidence.flush(1)
    assert evidence.flush(1)
    assert uses.sums() == {("example.com", 443, True, "listed"): (2, 5, 0)}
    evidence.close()


def test_names_are_masked_and_printable_before_they_are_kept():
    uses = Uses()
    evidence = EgressLog(uses, mask=lambda text: text.replace("secret", "***"), flush_seconds=60)
    evidence.note(1, target("my-secret.\x1b[2J.example\u202e"), Reason.MALFORMED, allowed=False)
    evidence.close()

    assert [use.host for use in uses.kept] == ["my-***.?[2J.example?"]


def test_evidence_is_written_now_and_then():
    uses = Uses()
    evidence = EgressLog(uses, flush_seconds=0.01)
    evidence.note(1, target("example.com"), Reason.LISTED, allowed=True, connections=1)

    until(lambda: bool(uses.kept))
    evidence.close()


def target(host):
    return Target(host, 443)
