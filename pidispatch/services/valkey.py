"""Valkey of our own: one append-only data directory, one private socket, a direct child of this process."""

import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

from pidispatch.services import child
from pidispatch.services.account import Account, give_directory, require_reach
from pidispatch.services.binaries import ValkeyBinary, find_valkey
from pidispatch.services.carry import reachable_valkey
from pidispatch.services.faults import ServiceFailed
from pidispatch.services.home import connected, pid_in, require_short
from pidispatch.services.leftover import end_occupant, occupant

SOCKET_NAME = "valkey.sock"
_STOP = ((signal.SIGTERM, 15.0),)
_PROGRAMS = frozenset({"valkey-server", "redis-server"})


class EmbeddedValkey:
    """Starts, serves, stops; answers to the Redis protocol."""

    name = "valkey"

    def __init__(
        self,
        data_dir: Path,
        run_dir: Path,
        account: Account | None = None,
        binary: ValkeyBinary | None = None,
        *,
        log: Path | None = None,
        ready_within: float = 60.0,
    ) -> None:
        self.data_dir, self.run_dir, self.account = data_dir, run_dir, account
        self.socket = run_dir / SOCKET_NAME
        self.log = log or data_dir.with_name("valkey.log")
        self._wanted, self._ready_within = binary, ready_within
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it answers PING. Raises ServiceFailed, BinariesMissing, PathTooLong."""
        require_short(self.socket)
        self.stop()
        found = self._wanted or find_valkey()
        binary = reachable_valkey(found, self.account, self.data_dir.parent / "programs")
        for directory in (self.data_dir, self.run_dir):
            give_directory(directory, self.account)
        require_reach(self.socket, self.account)
        require_reach(self.data_dir / "appendonlydir", self.account)
        self._clear_leftovers()
        argv = [str(binary.path), *self._options()]
        process = child.start_server(
            argv, log=child.open_log(self.log), death_signal=signal.SIGTERM, account=self.account
        )
        self._process = process
        try:
            child.wait_ready(self.name, process, self._answers, seconds=self._ready_within, log=self.log)
        except BaseException:
            self.stop()
            raise

    def poll(self) -> int | None:
        """The exit status of the server, None while it lives."""
        return None if self._process is None else child.exit_status(self._process)

    def stop(self) -> None:
        if self._process is not None:
            child.end(self._process, _STOP)
            self._process = None

    def kill(self) -> None:
        """Stop at once; up to a second of bells may be lost, which Postgres makes good."""
        if self._process is not None:
            child.send(self._process, signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def url(self, database: int = 0) -> str:
        return f"unix://{quote(str(self.socket), safe='/')}?db={database}"

    def ask(self, command: str) -> bytes:
        """The first bytes of the answer to one inline command, empty when nobody answers."""
        return ask(self.socket, command)

    def _answers(self) -> bool:
        return self.ask("PING") == b"+PONG\r\n"

    def _clear_leftovers(self) -> None:
        left = occupant(pid_in(self._pid_file), self.data_dir, _PROGRAMS)
        if left is not None:
            end_occupant(left, self.name, (*_STOP, (signal.SIGKILL, 5.0)))
        if self.ask("PING"):
            raise ServiceFailed(self.name, f"another server listens on {self.socket}")
        self.socket.unlink(missing_ok=True)

    @property
    def _pid_file(self) -> Path:
        return self.data_dir / "valkey.pid"

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.data_dir),
            "pidfile": str(self._pid_file),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "always-show-logo": "no",
            "logfile": "",
        }
        return [word for name, value in options.items() for word in (f"--{name}", value)]


def ask(path: Path, command: str) -> bytes:
    """Send one inline command to the server on this socket; empty when nobody answers."""
    with connected(path) as stream:
        if stream is None:
            return b""
        try:
            stream.sendall(command.encode() + b"\r\n")
            return stream.recv(4096)
        except OSError:
            return b""
