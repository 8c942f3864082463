"""Carry bytes between a run and one host, both ways, each way ending on its own."""

import contextlib
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

IDLE_SECONDS = 600.0
TELL_SECONDS = 2.0
_MOST_WAITING = 64 * 1024

Told = Callable[[int, int], None]


@dataclass(slots=True)
class _Way:
    """One direction: what was read and is not yet written, and how far its end has come."""

    source: socket.socket
    sink: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    ended: bool = False
    shut: bool = False
    untold: int = 0

    @property
    def hungry(self) -> bool:
        return not self.ended and len(self.waiting) < _MOST_WAITING

    def read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            chunk = self.source.recv(_MOST_WAITING)
            self.waiting += chunk
            self.ended = not chunk

    def write(self) -> None:
        with contextlib.suppress(BlockingIOError):
            sent = self.sink.send(self.waiting)
            self.untold += sent
            del self.waiting[:sent]

    def pass_on_end(self) -> None:
        if self.ended and not self.waiting and not self.shut:
            self.shut = True
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)


class Relay:
    """One tunnel under way. `told` hears now and then how many more bytes went up and down.

    With `answer_only` nothing more is taken from the client: its request has been sent.
    """

    def __init__(
        self,
        client: socket.socket,
        outside: socket.socket,
        told: Told,
        *,
        first: bytes = b"",
        answer_only: bool = False,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._up, self._down = _Way(client, outside), _Way(outside, client)
        (self._down if answer_only else self._up).waiting += first
        self._up.ended = self._up.shut = answer_only
        self._told, self._idle_seconds = told, idle_seconds
        self._left = False
        self.busy_at = self._told_at = time.monotonic()

    def run(self) -> None:
        """Until both ways have ended, the client has gone, or nothing has moved for too long."""
        for way in (self._up, self._down):
            way.source.setblocking(False)
        try:
            while not self._over() and self._step():
                self._tell(every=TELL_SECONDS)
        except OSError:
            pass  # one side broke off, or the tunnel was cut
        finally:
            self._tell(every=0.0)

    def _over(self) -> bool:
        client_gone = self._left and self._up.ended and not self._up.waiting
        return client_gone or (self._up.shut and self._down.shut)

    def _step(self) -> bool:
        """Move what can be moved; false after a time of nothing."""
        client, outside = self._up.source, self._up.sink
        poll = select.poll()
        wanted = _wanted(self._up, self._down)
        if wanted or not self._left:  # a hang-up is told without being asked for, and again at every look
            poll.register(client, wanted)
        if wanted := _wanted(self._down, self._up):
            poll.register(outside, wanted)
        events = dict(poll.poll(self._idle_seconds * 1000))
        if not events:
            return False
        self.busy_at = time.monotonic()
        self._left = self._left or bool(events.get(client.fileno(), 0) & select.POLLHUP)
        for way in (self._up, self._down):
            if way.hungry and way.source.fileno() in events:
                way.read()
            if way.waiting:
                way.write()
            way.pass_on_end()
        return True

    def _tell(self, *, every: float) -> None:
        now = time.monotonic()
        if now - self._told_at >= every and (self._up.untold or self._down.untold):
            self._told(self._up.untold, self._down.untold)
            self._up.untold = self._down.untold = 0
            self._told_at = now


def _wanted(reads: _Way, writes: _Way) -> int:
    """What a socket is waited for: `reads` comes from it, `writes` goes to it."""
    return (select.POLLIN if reads.hungry else 0) | (select.POLLOUT if writes.waiting else 0)
