"""Provider streams cut and broken in every way: the box gets the same bytes, usage is right or marked, nothing is left over."""

import contextlib
import http.client
import itertools
import json
import random
import socket
import threading
import time
import zlib
from pathlib import Path

import pytest

from pidispatch.entrypoints.scripted import SCENARIOS, usage_of, wire
from pidispatch.entrypoints.scripted.wire_responses import responses_stream
from tests.gateway.chopping import Chopper, chunked, framed
from tests.gateway.parts import chat, raw_client, read_until, responses
from tests.support.scale import scaled

PATHS = {"scripted": "/v1/chat/completions", "openai": "/v1/responses", "anthropic": "/v1/messages"}
BODIES = {"scripted": chat, "openai": responses, "anthropic": chat}
MESSAGE = SCENARIOS["happy"].steps[0]
USAGE = usage_of(1, len(MESSAGE.parts))
STREAMS = {
    "scripted": b"".join(wire.openai_stream("m", MESSAGE, USAGE, "t", with_usage=True)),
    "openai": b"".join(responses_stream("m", MESSAGE, USAGE, "t")),
    "anthropic": b"".join(wire.anthropic_stream("m", MESSAGE, USAGE, "t")),
}
LARGE = scaled(60_000_000, nightly=200_000_000)  # bytes: three times what may be kept of it
EVERY = scaled(17, nightly=1)  # bytes between two cuts
COMMENT = b": OPENROUTER PROCESSING\n\n"
# It hangs up after each answer, and says so: else the next call might still be sent on that connection.
SSE = b"content-type: text/event-stream\r\nconnection: close\r\n"


@pytest.fixture
def chopper():
    with Chopper() as provider:
        yield provider


@pytest.fixture
def ask(make_house, chopper):
    """Send one streamed request whose answer is these bytes; its status, body (None: broken off) and settlement."""
    house = make_house(
        {"scripted": f"{chopper.url}/v1", "openai": f"{chopper.url}/v1", "anthropic": chopper.url}
    )
    paths = {name: house.open(number, name) for number, name in enumerate(PATHS, 7)}

    def one(name, pieces):
        before = len(house.ledger.calls)
        chopper.pieces = pieces
        client = raw_client(paths[name])
        body = json.dumps(BODIES[name]()).encode()
        client.sendall(b"POST %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (PATHS[name].encode(), len(body), body))  # fmt: skip
        response = http.client.HTTPResponse(client, method="POST")
        try:
            response.begin()
            answer = response.read()
        except (http.client.HTTPException, ConnectionError):
            answer = None
        finally:
            client.close()
            response.close()
        end = house.ledger.settled(before + 1)[before]
        return response.status, answer, end

    return one


def is_right(end):
    return end.measured and (end.tokens_in, end.tokens_out, end.cache_read) == (
        USAGE.tokens_in, USAGE.tokens_out, USAGE.cache_read,
    )  # fmt: skip


@pytest.mark.parametrize("name", PATHS)
def test_a_stream_in_two_packets_cut_at_each_byte(ask, name):
    stream = STREAMS[name]
    raw = framed(SSE, chunked([stream]))
    # Each byte near every edge of its framing, and every so many between.
    edges = {at for at in range(len(raw)) if at < 140 or at % EVERY == 0 or at > len(raw) - 40}

    for at in sorted(edges):
        status, answer, end = ask(name, [raw[:at], raw[at:]])
        assert (status, answer) == (200, stream)
        assert is_right(end)


@pytest.mark.parametrize("name", PATHS)
def test_a_stream_in_chunks_cut_at_each_byte(ask, name):
    stream = STREAMS[name]

    for at in range(1, len(stream), EVERY):
        status, answer, end = ask(name, [framed(SSE, chunked([stream[:at], stream[at:]]))])
        assert (status, answer) == (200, stream)
        assert is_right(end)


@pytest.mark.parametrize("name", PATHS)
def test_a_stream_that_ends_at_each_byte_is_broken_off_for_the_box_too(ask, name):
    raw = framed(SSE, chunked([STREAMS[name]]))

    for at in [*range(0, len(raw) - 1, EVERY), len(raw) - 1]:
        status, answer, end = ask(name, [raw[:at]])
        assert answer is None or status == 502
        if end.measured and end.status == 200:
            assert is_right(end)
        if at < raw.index(b"data:"):
            assert not end.measured or end.status == 0


def odd_streams(name):
    """Name, the bytes that are sent as the body, and whether the usage in them is still to be found."""
    stream = STREAMS[name]
    middle = stream.index(b"\n\n", len(stream) // 2) + 2
    bad = b'data: {"x": "\xff\xfe\xed\xa0\x80"}\n\n'
    big = b'data: {"x": "' + b"y" * 10_000_000 + b'"}\n\n'
    yield "comments", COMMENT + stream[:middle] + COMMENT + stream[middle:] + COMMENT, True
    yield "bad utf-8", stream[:middle] + bad + stream[middle:], True
    yield "ten megabytes", stream[:middle] + big + stream[middle:], True
    yield "carriage returns", stream.replace(b"\n", b"\r"), True
    yield "both", stream.replace(b"\n", b"\r\n"), True
    yield (
        "mixed",
        b"".join(
            line + end
            for line, end in zip(stream.split(b"\n"), itertools.cycle([b"\r", b"\n", b"\r\n"]), strict=False)
        ),
        None,
    )
    yield "a mark at the start", b"\xef\xbb\xbf" + stream, True
    yield "no blank line at the end", stream.rstrip(b"\n"), None
    yield "zero bytes", stream[:middle] + b"\0" * 5000 + stream[middle:], None
    yield "another field", stream[:middle] + b"id: 5\nretry: 100\nnonsense\n\n" + stream[middle:], True
    yield "data of no JSON", stream[:middle] + b"data: [oops\n\n" + stream[middle:], True
    yield "deep", stream[:middle] + b"data: " + b"[" * 100_000 + b"\n\n" + stream[middle:], True
    yield "compressed", zlib.compress(stream), False
    yield "nothing", b"", False


@pytest.mark.parametrize("name", PATHS)
def test_odd_streams_pass_unchanged_and_are_measured_or_marked(ask, name):
    for what, body, found in odd_streams(name):
        dice = random.Random(what)
        cuts = sorted(dice.randint(0, len(body)) for _ in range(6))
        parts = [body[a:b] for a, b in itertools.pairwise([0, *cuts, len(body)]) if a < b]

        status, answer, end = ask(name, [framed(SSE, chunked(parts))])

        assert (status, answer == body) == (200, True), what
        if found is not None:
            assert is_right(end) == found, what
        assert end.measured == is_right(end), what


PACKED = {
    name: (packer := zlib.compressobj(wbits=31)).compress(stream) + packer.flush()
    for name, stream in STREAMS.items()
}


@pytest.mark.parametrize("name", PATHS)
def test_gzip_that_nobody_asked_for_is_unpacked_and_measured(ask, name):
    raw = framed(SSE + b"content-encoding: gzip\r\n", chunked([PACKED[name]]))

    status, answer, end = ask(name, [raw])

    assert (status, answer) == (200, STREAMS[name])
    assert is_right(end)


@pytest.mark.parametrize("name", PATHS)
def test_a_content_length_that_lies(ask, name):
    stream = STREAMS[name]

    def sized(length):
        return ask(name, [b"HTTP/1.1 200 OK\r\n" + SSE + b"content-length: %b\r\n\r\n" % length + stream])

    assert sized(b"%d" % len(stream))[1] == stream
    short = sized(b"100")
    assert short[1] == stream[:100]
    assert not short[2].measured
    assert sized(b"%d" % (len(stream) + 1))[1] is None
    for wrong in (b"-1", b"x", b"5, 6", b"9999999"):
        status, answer, end = sized(wrong)
        assert answer is None or status == 502 or answer == stream, wrong
        assert not end.measured or is_right(end) or end.tokens_out == 0, wrong


HEADS = [
    b"HTTP/1.1 200 OK\r\n" + SSE + b"\r\n",  # the end of the connection is the end of the body
    b"HTTP/1.0 200 OK\r\n" + SSE + b"\r\n",
    b"HTTP/1.1 200\r\n" + SSE + b"connection: close\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n" + SSE + b"\r\n",
    b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\n" + SSE + b"\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type:text/event-stream;charset=utf-8\r\nX-Odd: \xe9\r\n\r\n",
]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("head", HEADS)
def test_other_framings_of_http_reach_the_box_as_one(ask, name, head):
    status, answer, end = ask(name, [head, STREAMS[name]])

    assert (status, answer) == (200, STREAMS[name])
    assert is_right(end)


BROKEN = [
    b"", b"\r\n", b"nonsense\r\n\r\n", b"HTTP/1.1 OK\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 99999 x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000 + b"\r\n", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcdefgh",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nxx", bytes(range(256)),
]  # fmt: skip


@pytest.mark.parametrize("raw", BROKEN)
def test_an_answer_that_is_none_is_a_502_or_a_broken_one(ask, raw):
    status, answer, end = ask("scripted", [raw])

    assert answer is None or status == 502 or end.status == 200
    assert not (end.measured and end.tokens_out)


def test_random_damage_never_ends_the_gateway(ask):
    dice = random.Random(6)
    raw = framed(SSE, chunked([STREAMS["scripted"]]))

    for _ in range(150):
        broken = bytearray(raw)
        for _ in range(dice.randint(1, 8)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        end = ask("scripted", [bytes(broken)])[2]
        assert end.stop_reason in {"stop", "tool_use", "length", "error", "aborted"}

    assert is_right(ask("scripted", [raw])[2])


def test_no_thread_is_left_after_broken_calls(ask):
    ask("scripted", [b"x"])
    before = threading.active_count()

    for raw in [*BROKEN, framed(SSE, chunked([STREAMS["scripted"]])[:50])] * 3:
        ask("scripted", [raw])

    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threading.active_count() <= before


def resident():
    """Bytes of this process in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def pump(upstream, size):
    """Send this many bytes of small events as fast as they are taken; returns how many were."""
    event = b'data: {"choices":[{"delta":{"content":"' + b"x" * 4000 + b'"}}]}\n\n'
    packet, sent = b"%x\r\n%b\r\n" % (len(event), event), 0
    with contextlib.suppress(OSError):
        while sent < size:
            upstream.send(packet)
            sent += len(event)
    return sent


@pytest.fixture
def streaming(make_house, manual):
    """A stream under way: the house, its provider, and the box's socket. The head comes with the first output."""
    house = make_house({"scripted": manual.url})
    sock = raw_client(house.open())
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    body = json.dumps(chat()).encode()
    sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))  # fmt: skip
    manual.read_request()
    manual.send(b"HTTP/1.1 200 OK\r\n" + SSE + b"transfer-encoding: chunked\r\n\r\n")
    yield house, manual, sock
    sock.close()


def test_a_large_stream_passes_through_little_memory(streaming):
    _, manual, sock = streaming
    threading.Thread(target=pump, args=(manual, LARGE), daemon=True).start()
    taken, most, start, buffer = 0, 0, resident(), bytearray(1 << 20)

    while taken < LARGE:
        taken += sock.recv_into(buffer)
        most = max(most, resident())

    assert most - start < 20_000_000


def test_a_reader_of_one_byte_a_second_holds_its_provider_back(streaming):
    _, manual, sock = streaming
    manual.sock().settimeout(1.0)
    start = resident()

    sent = pump(manual, 200_000_000)
    trickle = [sock.recv(1) for _ in range(3)]

    assert all(trickle)
    assert sent < 20_000_000
    assert resident() - start < 20_000_000


def test_a_slow_provider_is_passed_on_event_by_event(streaming):
    house, manual, sock = streaming
    events = STREAMS["scripted"].split(b"\n\n")
    begun = b"\n\n".join(events[:3]) + b"\n\n"

    for at in range(len(begun)):
        manual.chunk(begun[at : at + 1])
    assert events[2] in read_until(sock, events[2])
    manual.chunk(b"\n\n".join(events[3:]))
    manual.send(b"0\r\n\r\n")
    read_until(sock, b"0\r\n\r\n")

    [end] = house.ledger.settled()
    assert is_right(end)


def test_an_endless_event_is_passed_on_and_not_kept(streaming):
    _, manual, sock = streaming
    line = b"data: " + b"x" * 100_000

    def send():
        with contextlib.suppress(OSError):  # the test has seen enough
            for _ in range(1_000):
                manual.chunk(line)

    threading.Thread(target=send, daemon=True).start()
    taken, most, start, buffer = 0, 0, resident(), bytearray(1 << 20)
    while taken < 90_000_000:  # the end of a line that does not end is held back, within a bound
        taken += sock.recv_into(buffer)
        most = max(most, resident())

    assert most - start < 40_000_000
