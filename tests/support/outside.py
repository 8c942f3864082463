"""An internet for tests: names resolve as a test says, and every public address is a server on this machine."""

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import ip_address

from pidispatch.domain.egress.publicaddress import Address
from pidispatch.gateway.egress.dial import Outside

PUBLIC = "93.184.215.14"
ANOTHER = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"


class Internet:
    """`names` maps a host to the answers of its lookups, the last of which stays. Dialled addresses are noted."""

    def __init__(self, names: dict[str, list[list[str]]], server: tuple[str, int] | None = None) -> None:
        self.names, self.server = names, server
        self.lookups: list[str] = []
        self.dialled: list[tuple[str, int]] = []

    def outside(self) -> Outside:
        return Outside(resolver=self.resolve, dialer=self.dial)

    def resolve(self, host: str, port: int) -> Sequence[Address]:
        self.lookups.append(host)
        answers = self.names.get(host)
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "no such host")
        return [ip_address(text) for text in (answers.pop(0) if len(answers) > 1 else answers[0])]

    def dial(self, address: Address, port: int, seconds: float) -> socket.socket:
        self.dialled.append((str(address), port))
        if self.server is None:
            raise ConnectionRefusedError
        return socket.create_connection(self.server, seconds)


class Server:
    """A TCP server on the loopback that gives each connection to `serve` in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(sock,), daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            sock.settimeout(20)
            self._serve(sock)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def echo(sock: socket.socket) -> None:
    """Give back what comes, and end when that ends."""
    while data := sock.recv(65536):
        sock.sendall(data)
