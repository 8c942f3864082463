"""Postgres of our own: one data directory, one private socket, a direct child of this process."""

import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

from pidispatch.services import child, cluster
from pidispatch.services.account import Account, give_directory, require_reach
from pidispatch.services.binaries import PostgresBinaries, find_postgres
from pidispatch.services.carry import reachable_postgres
from pidispatch.services.faults import ServiceFailed
from pidispatch.services.home import POSTGRES_SOCKET, connected, pid_in, require_short
from pidispatch.services.leftover import end_occupant, occupant

# SIGINT: roll back and stop; SIGQUIT: stop now and recover at the next start.
_STOP = ((signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0))
_PROGRAMS = frozenset({"postgres"})


class EmbeddedPostgres:
    """Starts, serves, stops. `durable=False` (tests) trades safety against power loss for speed."""

    name = "postgres"

    def __init__(
        self,
        data_dir: Path,
        run_dir: Path,
        account: Account | None = None,
        binaries: PostgresBinaries | None = None,
        *,
        log: Path | None = None,
        durable: bool = True,
        ready_within: float = 120.0,
    ) -> None:
        self.data_dir, self.run_dir, self.account = data_dir, run_dir, account
        self.socket = run_dir / POSTGRES_SOCKET
        self.log = log or data_dir.with_name("postgres.log")
        self._wanted, self._durable, self._ready_within = binaries, durable, ready_within
        self._binaries: PostgresBinaries | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when the application's database answers. Raises ServiceFailed, BinariesMissing, PathTooLong."""
        require_short(self.socket)
        self.stop()
        self._binaries = self._choose_binaries()
        give_directory(self.run_dir, self.account)
        require_reach(self.socket, self.account)
        require_reach(self.data_dir, self.account)
        if not (self.data_dir / "PG_VERSION").exists():
            cluster.create(self._binaries, self.data_dir, self.account, log=self.log, durable=self._durable)
        give_directory(self.data_dir, self.account)
        self._clear_leftovers()
        self._launch()
        cluster.provision(self._binaries, self.run_dir, log=self.log)

    def poll(self) -> int | None:
        """The exit status of the server, None while it lives."""
        return None if self._process is None else child.exit_status(self._process)

    def stop(self) -> None:
        if self._process is not None:
            child.end(self._process, _STOP)
            self._process = None

    def kill(self) -> None:
        """Stop at once; the next start recovers from the log."""
        if self._process is not None:
            child.send(self._process, signal.SIGQUIT)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def url(self, database: str = cluster.DATABASE, role: str = cluster.ROLE) -> str:
        """For SQLAlchemy; nothing in it is secret, the socket's directory guards the server."""
        return f"postgresql+psycopg://{role}@/{database}?host={quote(str(self.run_dir), safe='/')}"

    def _choose_binaries(self) -> PostgresBinaries:
        marker = self.data_dir / "PG_VERSION"
        major = int(marker.read_text()) if marker.exists() else None
        found = self._wanted or find_postgres(major)
        if major is not None and found.major != major:
            raise ServiceFailed(
                self.name, f"{self.data_dir} is of Postgres {major}, the programs of {found.major}"
            )
        return reachable_postgres(found, self.account, self.data_dir.parent / "programs")

    def _clear_leftovers(self) -> None:
        """End a server of ours that outlived its parent, and forget files that name a process which is none."""
        pid_file = self.data_dir / "postmaster.pid"
        lock_file = self.run_dir / f"{POSTGRES_SOCKET}.lock"
        for file in (pid_file, lock_file):
            left = occupant(pid_in(file), self.data_dir, _PROGRAMS)
            if left is not None:
                end_occupant(left, self.name, _STOP)
        with connected(self.socket) as stranger:
            if stranger is not None:
                raise ServiceFailed(self.name, f"another server listens on {self.socket}")
        for file in (pid_file, lock_file, self.socket):
            file.unlink(missing_ok=True)

    def _launch(self) -> None:
        assert self._binaries is not None  # noqa: S101
        argv = [self._binaries.program("postgres"), "-D", str(self.data_dir)]
        for setting, value in self._settings().items():
            argv += ["-c", f"{setting}={value}"]
        log = child.open_log(self.log)
        self._process = child.start_server(argv, log=log, death_signal=signal.SIGINT, account=self.account)
        process = self._process
        try:
            child.wait_ready(self.name, process, self._ready, seconds=self._ready_within, log=self.log)
        except BaseException:
            self.stop()
            raise

    def _ready(self) -> bool:
        """As pg_ctl does: the eighth line of postmaster.pid says what the server with that pid is at."""
        try:
            lines = (self.data_dir / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _settings(self) -> dict[str, str]:
        quoted = str(self.run_dir).replace('"', '""')
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": f'"{quoted}"',
            "unix_socket_permissions": "0700",
            "shared_buffers": "64MB",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        if not self._durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return settings
