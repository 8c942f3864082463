"""Find the addresses of a host, and connect to one that was looked at: nothing resolves a name a second time."""

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from pidispatch.domain.egress.allowlist import AllowedHost, Reason
from pidispatch.domain.egress.hostname import Target
from pidispatch.domain.egress.publicaddress import Address, is_public, plain_address, read_address

RESOLVE_SECONDS = 15.0
CONNECT_SECONDS = 10.0
MOST_ADDRESSES = 4
_LOOK_SECONDS = 0.5

Resolve = Callable[[str, int], Sequence[Address]]
Dial = Callable[[Address, int, float], socket.socket]


class Unreached(Exception):
    """Nothing was connected, for this reason."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason
        super().__init__(str(reason))


def resolve(host: str, port: int) -> Sequence[Address]:
    """Every address that the system's resolver gives, in its order. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [plain_address(ip_address(str(each[4][0]))) for each in found]


def dial(address: Address, port: int, seconds: float) -> socket.socket:
    """Raises OSError."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        sock.connect((str(address), port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        sock.close()
        raise
    return sock


class Outside:
    """The way to other machines. `resolver` and `dialer` are given by tests."""

    def __init__(
        self,
        *,
        resolver: Resolve = resolve,
        dialer: Dial = dial,
        resolve_seconds: float = RESOLVE_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self._resolver, self._dialer = resolver, dialer
        self._resolve_seconds, self._connect_seconds = resolve_seconds, connect_seconds

    def reach(self, target: Target, *, given_up: Callable[[], bool]) -> socket.socket:
        """A connection to one of the target's addresses, each of which is public. Raises Unreached.

        One address that is not public refuses them all: such an answer is a trick or a mistake.
        """
        literal = read_address(target.host)
        addresses = [literal] if literal is not None else self._look_up(target, given_up)
        if not all(is_public(address) for address in addresses):
            raise Unreached(Reason.PRIVATE_ADDRESS)
        for address in list(dict.fromkeys(addresses))[:MOST_ADDRESSES]:
            if given_up():
                break
            with contextlib.suppress(OSError):
                return self._dialer(address, target.port, self._connect_seconds)
        raise Unreached(Reason.UNREACHABLE)

    def _look_up(self, target: Target, given_up: Callable[[], bool]) -> Sequence[Address]:
        """The resolver has no time-out of its own, so it is asked in a thread that may be left behind."""
        answers: queue.SimpleQueue[Sequence[Address]] = queue.SimpleQueue()
        threading.Thread(target=self._ask, args=(target, answers), name="resolve", daemon=True).start()
        deadline = time.monotonic() + self._resolve_seconds
        while time.monotonic() < deadline and not given_up():
            with contextlib.suppress(queue.Empty):
                addresses = answers.get(timeout=_LOOK_SECONDS)
                if addresses:
                    return addresses
                break
        raise Unreached(Reason.NO_SUCH_HOST)

    def _ask(self, target: Target, answers: "queue.SimpleQueue[Sequence[Address]]") -> None:
        try:
            answers.put(self._resolver(target.host, target.port))
        except (OSError, ValueError):  # also a name that the resolver's own encoding refuses
            answers.put(())


STATUS = {Reason.MALFORMED: 400, Reason.NO_SUCH_HOST: 502, Reason.UNREACHABLE: 502, Reason.TOO_MANY: 503}


def in_words(target: Target, reason: Reason, entry: AllowedHost | None) -> str:
    match reason:
        case Reason.NOT_LISTED:
            line = str(target).removesuffix(":443").removesuffix(":80")
            return f"{target.host} is not on the list of hosts that this run may reach; the line `{line}` in egress-allowlist.conf, or in the trigger's run.egress, would let it through"
        case Reason.PORT:
            return f"port {target.port} of {target.host} is not on the list (`{entry}` is); the line `{target}` would let it through"
        case Reason.PRIVATE_ADDRESS:
            return f"{target.host} is at an address of this machine, its network or another that is not public; nothing lets a run reach it (a model's endpoint is set up as a provider)"
        case Reason.NO_SUCH_HOST:
            return f"{target.host} was not found"
        case Reason.TOO_MANY:
            return "this run has too many connections open; close some"
        case Reason.MALFORMED:
            return "the target is no host and port"
        case _:
            return f"{target} could not be reached"
