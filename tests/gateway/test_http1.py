"""One connection, as the gateway's doors see it."""

import contextlib
import socket

from hypothesis import given
from hypothesis import strategies as st

from pidispatch.gateway.http.http1 import HttpRefused, Wire, parse_head

TARGETS = st.binary(max_size=30) | st.sampled_from(
    [b"/go", b"http://x/go", b"x:443", b"[::1]:80", b"http:///go", b"*"]
)
METHODS = st.sampled_from([b"GET", b"POST", b"CONNECT", b"connect", b""])
REST = st.sampled_from(
    [b"", b"\r\ncontent-length: 3", b"\r\ntransfer-encoding: chunked", b"\r\nhost: x\r\nhost: y"]
)


def test_a_wire_tells_whether_its_peer_has_left_without_taking_what_it_said():
    ours, theirs = socket.socketpair()
    wire = Wire(ours)

    assert not wire.left()
    theirs.sendall(b"GET")
    assert not wire.left()
    assert ours.recv(3) == b"GET"
    theirs.close()
    assert wire.left()
    ours.close()


@given(METHODS, TARGETS, st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2"]), REST)
def test_a_head_is_read_or_refused_and_only_a_path_looks_like_one(method, target, version, rest):
    with contextlib.suppress(HttpRefused):
        head = parse_head(b"%b %b %b%b" % (method, target, version, rest))

        assert head.path.startswith("/") == target.startswith(b"/")
        assert (head.method == "CONNECT") <= (head.length == 0 and not head.path.startswith(("/", "http:")))
        assert version == b"HTTP/1.1" or head.method == "CONNECT"
