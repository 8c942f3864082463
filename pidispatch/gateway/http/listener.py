"""Listen on one unix socket, serve each connection in a thread, and stop in an orderly way."""

import contextlib
import errno
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from pidispatch.errors import ConfigurationRefused
from pidispatch.gateway.http.http1 import Departed, Head, HttpRefused, Wire, problem, whole_answer
from pidispatch.gateway.http.rooms import Allotment

MOST_PATH = 107
MOST_CONNECTIONS = 128  # of the control socket
CONTROL = 0  # in place of a run's id

Handler = Callable[[Wire, Head], None]
log = structlog.get_logger(__name__)


def check_length(path: Path) -> None:
    """Raise ConfigurationRefused for a path that no unix socket can have (sun_path is 108 bytes with its NUL)."""
    size = len(os.fsencode(path))
    if size > MOST_PATH:
        raise ConfigurationRefused(
            [
                f"the socket path {path} has {size} bytes, at most {MOST_PATH} work: choose a shorter run directory"
            ]
        )


def own_directory(path: Path, mode: int) -> None:
    """Make `path` a directory of ours with exactly this mode; an existing one is kept, a link is refused."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigurationRefused([f"{path} is not a directory of user {os.geteuid()}"])
    if stat.S_IMODE(found.st_mode) != mode:
        path.chmod(mode)


def shared_directory(path: Path) -> None:
    """Make `path` a directory of ours that others can neither list nor write.

    One that exists keeps its mode: an embedded server of another user may have to walk through it.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise ConfigurationRefused([f"{path} is not a directory of user {os.geteuid()}"])
    if found.st_mode & 0o066:
        raise ConfigurationRefused([f"{path} is open to others: chmod 0711 {path}"])


def peer_uid(sock: socket.socket) -> int:
    """The uid of the process that connected, from the kernel."""
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def _bind(path: Path, mode: int) -> socket.socket:
    """Bind anew (a stale file is removed); nobody can connect before the mode is set, as `listen` comes last."""
    check_length(path)
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(os.fspath(path))
        path.chmod(mode)
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock


class Listener:
    """One listening socket and its connections."""

    def __init__(
        self,
        path: Path,
        mode: int,
        handler: Handler,
        *,
        admits: Callable[[int], bool] = lambda _uid: True,
        room: Allotment | None = None,
        run_id: int = CONTROL,
    ) -> None:
        self._path, self._handler, self._admits = path, handler, admits
        self._run_id = run_id
        self._room = room or Allotment(
            "connections", each=MOST_CONNECTIONS, together=MOST_CONNECTIONS, least=MOST_CONNECTIONS
        )
        self._changed = threading.Condition()
        self._idle: set[Wire] = set()
        self._busy: set[Wire] = set()
        self._closing = False
        self._sock = _bind(path, mode)
        threading.Thread(target=self._accept, name=f"accept {path}", daemon=True).start()

    def stop_accepting(self) -> None:
        """No new connection and no new request; requests under way go on. Idempotent."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            idle = list(self._idle)
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()
        for wire in idle:
            wire.hang_up()

    def wait_quiet(self, seconds: float) -> bool:
        """True when no request is under way, waiting at most this long."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._busy, seconds)

    def hang_up(self) -> None:
        """End every connection, also in the middle of an answer."""
        with self._changed:
            wires = [*self._idle, *self._busy]
        for wire in wires:
            wire.hang_up()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._sock.accept()
            except OSError as error:
                if self._closing:
                    return
                if error.errno in {errno.EBADF, errno.EINVAL}:
                    log.exception("gateway.listener_died", path=str(self._path))
                    return
                # Out of file descriptors or memory: both end when other connections do.
                log.warning("gateway.accept_failed", path=str(self._path), problem=str(error))
                time.sleep(0.1)
                continue
            self._take_in(sock)

    def _take_in(self, sock: socket.socket) -> None:
        if not self._admits(peer_uid(sock)):
            sock.close()
            return
        if not self._room.take(self._run_id):
            _turn_away(sock)
            return
        wire = Wire(sock)
        with self._changed:
            welcome = not self._closing
            self._idle.add(wire)
        if not welcome:
            self._forget(wire)
            return
        try:
            threading.Thread(
                target=self._serve, args=(wire,), name=f"serve {self._path}", daemon=True
            ).start()
        except RuntimeError:
            log.warning("gateway.out_of_threads", path=str(self._path))
            self._forget(wire)

    def _serve(self, wire: Wire) -> None:
        try:
            while wire.keep_alive:
                self._serve_one(wire)
        except Departed:
            pass
        except Exception:
            log.exception("gateway.connection_failed", path=str(self._path))
        finally:
            self._forget(wire)

    def _serve_one(self, wire: Wire) -> None:
        try:
            head = wire.read_head()
            with self._working(wire):
                self._handler(wire, head)
        except HttpRefused as refusal:
            wire.keep_alive = False
            wire.answer(refusal.status, problem("invalid_request_error", f"pidispatch: {refusal.problem}"))
            wire.linger()

    @contextlib.contextmanager
    def _working(self, wire: Wire) -> Iterator[None]:
        with self._changed:
            if self._closing:
                raise Departed
            self._idle.discard(wire)
            self._busy.add(wire)
        try:
            yield
        finally:
            with self._changed:
                self._busy.discard(wire)
                self._idle.add(wire)
                if self._closing:
                    wire.keep_alive = False
                self._changed.notify_all()

    def _forget(self, wire: Wire) -> None:
        with self._changed:
            self._idle.discard(wire)
            self._busy.discard(wire)
            self._changed.notify_all()
        self._room.give(self._run_id)
        wire.sock.close()


def _turn_away(sock: socket.socket) -> None:
    """Say that there is no room, without waiting for anything: this is the thread that takes everybody in."""
    said = problem("overloaded_error", "pidispatch: too many connections are open: close some, and try again")
    with sock, contextlib.suppress(OSError):
        sock.setblocking(False)
        sock.send(whole_answer(503, said))
