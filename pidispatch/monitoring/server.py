"""Answer two questions over HTTP, on one address that one process of a host holds at a time."""

import contextlib
import errno
import fcntl
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from typing import Any

import structlog

from pidispatch.domain.text.address import ListenAddress, TcpAddress, UnixAddress

log = structlog.get_logger(__name__)

RETRY = 10.0  # seconds until an address that another process holds is tried again
POLL = 0.5  # seconds
QUIET = 5.0  # seconds that a client may be silent
MOST_CLIENTS = 16


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: bytes


NOT_HERE = Answer(404, "text/plain; charset=utf-8", b"not here\n")
BROKEN = Answer(500, "text/plain; charset=utf-8", b"the worker's log says why\n")
Pages = Mapping[str, Callable[[], Answer]]


def serve(address: ListenAddress, pages: Pages, stop: threading.Event, *, retry: float = RETRY) -> None:
    """Answer `GET` of these paths until `stop`. While another process has the address, wait for it to end."""
    told = False
    while not stop.is_set():
        try:
            with _listening(address, pages) as server:
                log.info("health_served", address=str(address))
                while not stop.is_set():
                    server.handle_request()
                return
        except OSError as error:
            if not told:
                _tell(address, error)
            told = True
        stop.wait(retry)


def _tell(address: ListenAddress, error: OSError) -> None:
    """That another worker process of this host answers is as it should be."""
    if error.errno in {errno.EADDRINUSE, errno.EWOULDBLOCK}:
        log.info("health_served_by_another", address=str(address))
    else:
        log.warning("health_not_served", address=str(address), problem=error.strerror or str(error))


@contextmanager
def _listening(address: ListenAddress, pages: Pages) -> Iterator[TCPServer]:
    match address:
        case TcpAddress(host, port):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with _Server(family, (host, port), pages) as server:
                yield server
        case UnixAddress(path):
            with _held(path), _Server(socket.AF_UNIX, path, pages) as server:
                yield server


@contextmanager
def _held(path: str) -> Iterator[None]:
    """Hold the socket's path: whoever has the lock beside it may remove what a dead process left there.

    Raises BlockingIOError while another process holds it.
    """
    with contextlib.ExitStack() as undo:
        lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        undo.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _unlink_socket(Path(path))
        yield
        _unlink_socket(Path(path))


def _unlink_socket(path: Path) -> None:
    """Only a socket: a file that a mistaken setting names is not ours."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()


class _Server(ThreadingMixIn, TCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = (
        True  # else a restart would wait for connections of the process before to be forgotten
    )
    timeout = POLL

    def __init__(self, family: socket.AddressFamily, address: Any, pages: Pages) -> None:
        self.address_family = family
        self.pages = pages
        self._room = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        if self.address_family != socket.AF_UNIX:
            super().server_bind()
            return
        self.socket.bind(self.server_address)
        Path(str(self.server_address)).chmod(0o600)  # nobody connects before, as `listen` comes after

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or stayed silent, is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = QUIET
    server_version = "pidispatch"
    sys_version = ""

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.partition("?")[0])
        answer = NOT_HERE if page is None else _asked(page)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: Any) -> None:
        """Scrapes are no news."""


def _asked(page: Callable[[], Answer]) -> Answer:
    try:
        return page()
    except Exception:
        log.exception("health_page_broke")
        return BROKEN
