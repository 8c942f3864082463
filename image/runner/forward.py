"""Carry 127.0.0.1 to the gateway's socket byte for byte, holding new connections while that door is closed."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

PORT = 4180
HOLD_SECONDS = 600.0
_CHUNK = 64 * 1024
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0


class Forwarder:
    """Listens from construction on; `port` 0 takes any free one (for tests)."""

    def __init__(self, gate: str, *, port: int = PORT, hold: float = HOLD_SECONDS) -> None:
        self._gate, self._hold = gate, hold
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        _spawn(self._accept)

    def close(self) -> None:
        # shutdown wakes the accepting thread, close alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            _spawn(self._carry, client)

    def _carry(self, client: socket.socket) -> None:
        with client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            door = self._knock(client)
            if door is None:
                return
            with door:
                upward = _spawn(_pump, client, door)
                _pump(door, client)
                # A tunnel's far end may have said its last word and still listen. Once the gateway has gone too,
                # whatever the client still sends has no reader.
                _until_closed(door)
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
                upward.join()

    def _knock(self, client: socket.socket) -> socket.socket | None:
        """Connect to the door, trying until it opens, the hold is over, or the client has gone."""
        end = time.monotonic() + self._hold
        pause = _FIRST_PAUSE
        while True:
            door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                door.connect(self._gate)
            except OSError:
                door.close()
            else:
                return door
            if time.monotonic() >= end or _gone(client, pause):
                return None
            pause = min(pause * 2, _LONGEST_PAUSE)


def _gone(client: socket.socket, seconds: float) -> bool:
    """Wait that long for the client to hang up. (Its request is there to be read: looking at that says nothing.)"""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(seconds * 1000))


def _until_closed(door: socket.socket) -> None:
    """Wait until both directions are over, whoever ended them."""
    poll = select.poll()
    poll.register(door, 0)  # a hang-up is told without being asked for
    poll.poll()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while chunk := source.recv(_CHUNK):
            sink.sendall(chunk)
    except OSError:
        pass
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _spawn(target: object, *args: object) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread
