"""One connection, as the gateway's doors see it."""

import socket

from pidispatch.gateway.http1 import Wire


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
