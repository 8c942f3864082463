"""Let a run reach the hosts on its list, through CONNECT or a plain http:// request, and say no to all others."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from pidispatch.domain.egress.allowlist import AllowedHost, Allowlist, Reason, read_entries
from pidispatch.domain.egress.hostname import Target, read_target
from pidispatch.domain.providers.calls import Ticket
from pidispatch.gateway.egress.dial import STATUS, Outside, Unreached, in_words
from pidispatch.gateway.egress.log import EgressLog
from pidispatch.gateway.egress.plainhttp import MOST_BODY, NoAnswer, exchange, read_asked, request_bytes
from pidispatch.gateway.egress.relay import IDLE_SECONDS, Relay
from pidispatch.gateway.http.http1 import Head, HttpRefused, Wire, problem
from pidispatch.gateway.http.rooms import Allotment

REST_SECONDS = 1.0
_NOWHERE = Target("?", 0)
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Egress:
    """The way out of every box. `allowed` gives the list in force; without one nothing is let through."""

    def __init__(
        self,
        allowed: Callable[[], Allowlist] = Allowlist,
        *,
        outside: Outside | None = None,
        evidence: EgressLog | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.allowed, self.idle_seconds = allowed, idle_seconds
        self.outside = outside or Outside()
        self.evidence = evidence or EgressLog(None)

    def door(self, ticket: Ticket, room: Allotment) -> "Tunnels":
        return Tunnels(self, ticket, room)

    def flush(self, run_id: int) -> None:
        """Write what the run did; when the database is away, that comes later."""
        self.evidence.flush(run_id)

    def close(self) -> None:
        self.evidence.close()


@dataclass(frozen=True, slots=True)
class Passage:
    """What was let through, and by which rule; `request` is that of a plain http:// one, None for a tunnel."""

    target: Target
    reason: Reason
    request: bytes | None


class Tunnels:
    """The tunnels of one door."""

    def __init__(self, egress: Egress, ticket: Ticket, room: Allotment) -> None:
        self._egress, self._ticket, self._room = egress, ticket, room
        self._own: tuple[AllowedHost, ...] = read_entries(ticket.egress)
        self._lock = threading.Lock()
        self._open: set[_Tunnel] = set()
        self._cut = False

    def serve(self, wire: Wire, head: Head) -> None:
        """Answer one request whose target is no path of ours. Its connection is over with it. Raises Departed, Refused."""
        wire.keep_alive = False
        if head.method == "CONNECT":
            asked, target, body = None, read_target(head.path), b""
        else:
            body = wire.read_body(head, MOST_BODY)
            asked = read_asked(head)
            target = None if asked is None else asked.target
        if target is None:
            self._refuse(wire, _NOWHERE, Reason.MALFORMED)
            return
        ruling = self._egress.allowed().judge(target, self._own)
        if not ruling.allowed:
            self._refuse(wire, target, ruling.reason, ruling.entry)
            return
        passage = Passage(target, ruling.reason, None if asked is None else request_bytes(asked, head, body))
        with self._place(wire) as tunnel:
            if tunnel is None:
                self._refuse(wire, target, Reason.TOO_MANY)
            else:
                self._reach(tunnel, passage)

    def cut(self) -> None:
        """End every tunnel now, and any that is about to begin."""
        with self._lock:
            self._cut = True
            tunnels = list(self._open)
        for tunnel in tunnels:
            tunnel.cut()

    def rest(self) -> None:
        """End those in which nothing moves: whoever waits for the door to be quiet waits for work alone."""
        with self._lock:
            tunnels = list(self._open)
        for tunnel in tunnels:
            if tunnel.idle_for >= REST_SECONDS:
                tunnel.cut()

    def _reach(self, tunnel: "_Tunnel", passage: "Passage") -> None:
        try:
            sock = self._egress.outside.reach(passage.target, given_up=lambda: tunnel.is_cut)
        except Unreached as failure:
            self._refuse(tunnel.wire, passage.target, failure.reason)
            return
        with sock:
            self._told(passage, connections=1)
            if tunnel.hold(sock):
                tunnel.relay = self._begin(tunnel.wire, sock, passage)
                tunnel.relay.run()

    def _begin(self, wire: Wire, sock: socket.socket, passage: "Passage") -> Relay:
        """Say that the way is free, or send the one request and hand on its answer's head. Raises Departed, Refused."""
        told = partial(self._told, passage)
        idle = self._egress.idle_seconds
        if passage.request is None:
            wire.write(_ESTABLISHED)
            return Relay(wire.sock, sock, told, first=wire.take_rest(), idle_seconds=idle)
        told(len(passage.request), 0)
        try:
            rest, size = exchange(sock, passage.request, wire)
        except NoAnswer as error:
            raise HttpRefused(502, f"{passage.target} did not answer in HTTP") from error
        told(0, size - len(rest))
        return Relay(wire.sock, sock, told, first=rest, answer_only=True, idle_seconds=idle)

    def _told(self, passage: "Passage", up: int = 0, down: int = 0, *, connections: int = 0) -> None:
        self._egress.evidence.note(
            self._ticket.run_id,
            passage.target,
            passage.reason,
            allowed=True,
            connections=connections,
            up=up,
            down=down,
        )

    def _refuse(self, wire: Wire, target: Target, reason: Reason, entry: AllowedHost | None = None) -> None:
        self._egress.evidence.note(self._ticket.run_id, target, reason, allowed=False, connections=1)
        words = f"pidispatch: {in_words(target, reason, entry)}"
        wire.answer(STATUS.get(reason, 403), problem(f"egress_{reason}", words))

    @contextlib.contextmanager
    def _place(self, wire: Wire) -> "Iterator[_Tunnel | None]":
        """A place among the tunnels of this run and of all, None when there is none."""
        if not self._room.take(self._ticket.run_id):
            yield None
            return
        tunnel = _Tunnel(wire)
        with self._lock:
            if self._cut:
                tunnel.cut()
            self._open.add(tunnel)
        try:
            yield tunnel
        finally:
            with self._lock:
                self._open.discard(tunnel)
            self._room.give(self._ticket.run_id)


class _Tunnel:
    """What another thread needs in order to end a tunnel."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.relay: Relay | None = None
        self.is_cut = False
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None

    @property
    def idle_for(self) -> float:
        return time.monotonic() - (self._began if self.relay is None else self.relay.busy_at)

    def hold(self, sock: socket.socket) -> bool:
        """The tunnel's far end; false when it was cut before."""
        with self._lock:
            self._sock = sock
            return not self.is_cut

    def cut(self) -> None:
        with self._lock:
            self.is_cut = True
            sock = self._sock
        for each in (sock, self.wire.sock):
            if each is not None:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
