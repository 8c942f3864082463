"""A provider that echoes its key: the box never gets it, and the answer stays one."""

import base64
import http.client
import json
from urllib.parse import quote

import pytest

from tests.gateway.parts import KEY, chat, raw_client

JSON = b"content-type: application/json\r\n"
STREAM = b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
BODY = json.dumps(chat()).encode()
REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(BODY)

FORMS = {
    "plain": KEY,
    "base64 of a header": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "in a URL": quote("".join(f"%{ord(each):02x}" for each in KEY), safe=""),
    "escaped in JSON": "".join(f"\\u{ord(each):04x}" for each in KEY),
    "hex": KEY.encode().hex(),
}


def asked(house, manual, *sent):
    """The bytes that the box gets for an answer that comes in these pieces."""
    sock = raw_client(house.open())
    sock.sendall(REQUEST + BODY)
    manual.read_request()
    for piece in sent:
        manual.send(piece)
    manual.sock().close()
    response = http.client.HTTPResponse(sock)
    response.begin()
    body = response.read()
    sock.close()
    return response, body


@pytest.fixture
def house(make_house, manual):
    return make_house({"scripted": f"{manual.url}/v1"})


@pytest.mark.parametrize("status", [b"200 OK", b"401 Unauthorized", b"429 Slow", b"500 X"])
@pytest.mark.parametrize("form", FORMS)
def test_a_key_in_the_body_is_masked_and_the_length_stays(house, manual, form, status):
    text = b'{"error":{"code":"insufficient_quota","message":"the key %b is bad"}}' % FORMS[form].encode()
    head = b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n" % (status, JSON, len(text))

    response, body = asked(house, manual, head, text)

    assert response.getheader("content-length") == str(len(text)) == str(len(body))
    said = json.loads(body)["error"]["message"]
    assert said.startswith("the key ")
    assert said.endswith(" is bad")
    assert "[redacted]" in said
    assert FORMS[form].encode() not in body


def test_a_key_in_header_fields_is_masked(house, manual):
    fields = f"x-echo: Bearer {KEY}\r\nx-{KEY}: 1\r\nx-more: {FORMS['hex']}\r\n".encode()

    response, body = asked(
        house, manual, b"HTTP/1.1 200 OK\r\n%b%bcontent-length: 2\r\n\r\n{}" % (JSON, fields)
    )

    assert body == b"{}"
    assert "[redacted]" in response.getheader("x-echo")
    told = str(response.msg)
    assert KEY not in told
    assert FORMS["hex"] not in told


@pytest.mark.parametrize("form", FORMS)
def test_a_key_that_the_network_cuts_is_masked_in_a_stream(house, manual, form):
    event = b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % FORMS[form].encode()
    middle = len(event) // 2
    pieces = [b"%x\r\n%b\r\n" % (len(part), part) for part in (event[:middle], event[middle:], event)]

    response, body = asked(house, manual, b"HTTP/1.1 200 OK\r\n" + STREAM + b"\r\n", *pieces, b"0\r\n\r\n")

    assert response.status == 200
    assert body.count(b"[redacted]") == 2
    assert len(body) == 2 * len(event)
    assert FORMS[form].encode() not in body
    for line in body.split(b"\n\n")[:2]:
        json.loads(line.removeprefix(b"data: "))


def test_an_event_is_handed_on_while_the_next_is_not_there(house, manual):
    sock = raw_client(house.open())
    sock.sendall(REQUEST + BODY)
    manual.read_request()
    first = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    manual.send(b"HTTP/1.1 200 OK\r\n" + STREAM + b"\r\n")

    manual.chunk(first + b'data: {"cho')

    got = b""
    while first not in got:
        got += sock.recv(65536)
    assert not got.endswith(b'data: {"cho\r\n')
    manual.chunk(b'ices":[]}\n\n')
    manual.send(b"0\r\n\r\n")
    while not got.endswith(b"0\r\n\r\n"):
        got += sock.recv(65536)
    sock.close()
