"""The run is the socket: nothing that is said on it changes which run is charged."""

import json
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from pidispatch.entrypoints.scripted import ScriptedProvider
from tests.gateway.parts import CONTAINER, UnixClient, chat, raw_client
from tests.gateway.test_calls import upstreams

CHAT = "/v1/chat/completions"
BODY = json.dumps(chat()).encode()


@pytest.fixture
def scripted():
    with ScriptedProvider() as provider:
        yield provider


@pytest.fixture
def house(make_house, scripted):
    """Two runs with open doors; all that is said is said on the door of run 7."""
    made = make_house(upstreams(scripted))
    made.open(7)
    made.open(8)
    return made


def charged(house):
    return Counter(call.run_id for call in house.ledger.calls)


def say(house, data):
    """Everything that is answered to these bytes, until the gateway or silence ends it."""
    sock = raw_client(house.run_dir / "g/7/s")
    sock.settimeout(0.5)
    answer = b""
    try:
        sock.sendall(data)
        while piece := sock.recv(65536):
            answer += piece
    except (TimeoutError, ConnectionError):
        pass
    sock.close()
    return answer


def request(target=CHAT, *fields, body=BODY):
    lines = [f"POST {target} HTTP/1.1", "host: x", f"content-length: {len(body)}", *fields]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


CLAIMS = [
    {"host": "8"},
    {"host": "local:8"},
    {"x-run": "8", "x-run-id": "8", "x-pidispatch-run": "8", "run-id": "8"},
    {"x-forwarded-for": "10.0.0.8", "forwarded": "for=8", "x-real-ip": "8"},
    {"x-original-url": "/runs/8", "x-rewrite-url": "/runs/8", "x-forwarded-host": "8"},
    {"authorization": "Bearer 8", "x-api-key": "8", "cookie": "run=8"},
    {"x-pidispatch-signature": "0" * 64},
    {"x-http-method-override": "DELETE"},
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_no_header_says_which_run_pays(house, claim):
    client = UnixClient(house.run_dir / "g/7/s")

    status, _ = client.ask("POST", CHAT, chat(), claim)

    client.close()
    assert status == 200
    assert charged(house) == {7: 1}


def test_no_member_of_the_body_says_which_run_pays(house):
    client = UnixClient(house.run_dir / "g/7/s")

    client.ask("POST", CHAT, chat(run=8, run_id=8, user="8", metadata={"run": 8}))

    client.close()
    assert charged(house) == {7: 1}


@pytest.mark.parametrize(
    "target",
    [
        "http://8/v1/chat/completions", "http://x/g/8/s/v1/chat/completions", "/g/8/s/v1/chat/completions",
        "/../8/s/v1/chat/completions", "/v1/../8/v1/chat/completions", "/runs/8/v1/chat/completions",
        "//v1/chat/completions", "/v1//chat/completions", "/v1/chat/completions/", "/v1/chat/completions/8",
        "/v1/chat%2Fcompletions", "/v1/chat/completions%00", "/V1/chat/completions", "/v1/chat/completions;run=8",
        "/v1/chat/completions#8", "/./v1/chat/completions", "unix:/g/8/s", "*", "/gateway.sock",
    ],
)  # fmt: skip
def test_no_path_leads_to_another_door_or_past_this_one(house, scripted, target):
    answer = say(house, request(target))

    assert answer.startswith((b"HTTP/1.1 404 ", b"HTTP/1.1 400 ", b"HTTP/1.1 403 "))
    assert not house.ledger.calls
    assert not scripted.asked


def test_a_query_says_nothing_here_and_goes_no_further(house, scripted):
    assert say(house, request(f"{CHAT}?run=8&run_id=8")).startswith(b"HTTP/1.1 200 ")

    assert charged(house) == {7: 1}
    assert [asked.path for asked in scripted.asked] == [CHAT]


def test_another_runs_go_and_report_are_not_to_be_had_here(house):
    house.tickets.runs[8].go_given = house.tickets.runs[7].go_given = False
    house.tickets.runs[8].container = "f" * 64
    client = UnixClient(house.run_dir / "g/7/s")

    asked = {"run": 8, "run_id": 8, "attempt": 1, "container": "f" * 64}
    foreign = client.ask("POST", "/go", asked)
    own = client.ask("POST", "/go", {**asked, "container": CONTAINER})

    client.close()
    assert (foreign[0], own[0]) == (403, 200)
    assert not house.tickets.runs[8].go_given


def test_requests_sent_at_one_go_are_all_this_runs(house, scripted):
    answer = say(house, request() * 3)

    assert answer.count(b"HTTP/1.1 200 ") == 3
    assert charged(house) == {7: 3}
    assert len(scripted.asked) == 3


HIDDEN = request(CHAT, "x-run: 8", body=json.dumps(chat("hidden")).encode())
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


def framed(*fields, body=b"", line=f"POST {CHAT} HTTP/1.1"):
    return "\r\n".join((line, "host: x", *fields)).encode("latin-1") + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "data",
    [
        framed("content-length: 5", "transfer-encoding: chunked", body=CHUNKED + HIDDEN),
        framed("transfer-encoding: chunked", f"content-length: {len(CHUNKED)}", body=CHUNKED + HIDDEN),
        framed("transfer-encoding: chunked", "transfer-encoding: identity", body=CHUNKED + HIDDEN),
        framed("transfer-encoding: chunked, identity", body=CHUNKED + HIDDEN),
        framed("transfer-encoding: xchunked", body=CHUNKED + HIDDEN),
        framed("transfer-encoding:\x0bchunked", body=CHUNKED + HIDDEN),
        framed("transfer-encoding : chunked", body=CHUNKED + HIDDEN),
        framed(" transfer-encoding: chunked", body=CHUNKED + HIDDEN),
        framed("content-length: 0", f"content-length: {len(BODY)}", body=BODY + HIDDEN),
        framed(f"content-length: 0, {len(BODY)}", body=BODY + HIDDEN),
        framed(f"content-length: +{len(BODY)}", body=BODY + HIDDEN),
        framed(f"content-length: {len(BODY)}x", body=BODY + HIDDEN),
        framed(f"content-length: 0x{len(BODY):x}", body=BODY + HIDDEN),
        framed(f"content-length: {len(BODY)}\x00", body=BODY + HIDDEN),
        framed(f"content-length: {len(BODY)}\nx-run: 8", body=BODY + HIDDEN),
        framed(f"content-length: {len(BODY)}\rx: y", body=BODY + HIDDEN),
        framed("transfer-encoding: chunked", body=b"0x%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY) + HIDDEN),
        framed("transfer-encoding: chunked", body=b"-1\r\n" + HIDDEN),
        framed("transfer-encoding: chunked", body=b"%x\n%b\n0\n\n" % (len(BODY), BODY) + HIDDEN),
        framed("transfer-encoding: chunked", body=b"%x\r\n%bXX0\r\n\r\n" % (len(BODY), BODY) + HIDDEN),
        framed(f"content-length: {len(BODY)}", body=BODY + HIDDEN, line=f"POST {CHAT} HTTP/1.1 x"),
        framed(f"content-length: {len(BODY)}", body=BODY + HIDDEN, line=f"POST  {CHAT} HTTP/1.1"),
        framed(f"content-length: {len(BODY)}", body=BODY + HIDDEN, line=f"POST {CHAT} HTTP/0.9"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
    ],
)  # fmt: skip
def test_a_request_whose_end_could_be_seen_in_two_ways_is_refused_with_all_that_follows(
    house, scripted, data
):
    answer = say(house, data)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert len(re.findall(rb"HTTP/1\.1 \d", answer)) == 1
    assert not house.ledger.calls
    assert not scripted.asked


def test_what_hides_in_a_body_stays_a_body(house, scripted):
    """The box's framing ends here; what goes on to the provider has one of the gateway's own."""
    inside = json.dumps(chat(user=HIDDEN.decode())).encode()
    chunked = framed("transfer-encoding: chunked", body=b"%x\r\n%b\r\n0\r\n\r\n" % (len(inside), inside))

    assert say(house, chunked).startswith(b"HTTP/1.1 200 ")
    assert say(house, request(body=inside)).startswith(b"HTTP/1.1 200 ")

    assert charged(house) == {7: 2}
    assert [asked.model for asked in scripted.asked] == ["happy", "happy"]
    assert all("transfer-encoding" not in asked.headers for asked in scripted.asked)


def test_trailers_do_not_become_fields(house, scripted):
    body = b"%x\r\n%b\r\n0\r\nx-run: 8\r\nauthorization: Bearer 8\r\n\r\n" % (len(BODY), BODY)

    assert say(house, framed("transfer-encoding: chunked", body=body)).startswith(b"HTTP/1.1 200 ")

    assert "x-run" not in scripted.asked[0].headers
    assert charged(house) == {7: 1}


def test_fifty_doors_at_once_each_charge_their_own_run(make_house, scripted):
    house = make_house(upstreams(scripted))
    runs, each = range(100, 150), 4
    paths = {run: house.open(run) for run in runs}
    together = threading.Barrier(len(runs) * each)

    def call(run, number):
        client = UnixClient(paths[run], timeout=60)
        together.wait(60)
        status, answer = client.ask("POST", CHAT, chat(f"of-{run}-{number}"))
        client.close()
        return status, f'"model": "of-{run}-{number}"'.encode() in answer

    with ThreadPoolExecutor(len(runs) * each) as pool:
        asked = [pool.submit(call, run, number) for run in runs for number in range(each)]
        answers = {each.result() for each in asked}

    assert answers == {(200, True)}
    assert len(house.ledger.settled(len(runs) * each)) == len(runs) * each
    assert charged(house) == dict.fromkeys(runs, each)
    assert all(call.model.startswith(f"of-{call.run_id}-") for call in house.ledger.calls)
    assert sorted(asked.model for asked in scripted.asked) == sorted(c.model for c in house.ledger.calls)
