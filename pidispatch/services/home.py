"""The directory that holds all of one installation: where things lie, and who runs it now."""

import contextlib
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pidispatch.errors import ConfigurationRefused
from pidispatch.services.account import Account, require_reach
from pidispatch.services.ballast import Ballast
from pidispatch.services.faults import AlreadyRunning, PathTooLong

LIMIT = 107 if sys.platform == "linux" else 103


def require_short(path: Path) -> None:
    """Raises PathTooLong: the kernel would refuse the path, or worse, libraries would cut it."""
    if len(bytes(path)) > LIMIT:
        raise PathTooLong(path, LIMIT)


@contextlib.contextmanager
def connected(path: Path, timeout: float = 2.0) -> Iterator[socket.socket | None]:
    """A connection to `path`, or None when nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(timeout)
        try:
            stream.connect(str(path))
        except OSError:
            yield None
        else:
            yield stream


POSTGRES_SOCKET = ".s.PGSQL.5432"
# A reader of `running_urls` holds the lock for an instant; that must not look like a second `up`.
_LOCK_PATIENCE = 0.5


@dataclass(frozen=True, slots=True)
class Urls:
    """How to reach the services of a running `up`, and its process id."""

    database: str
    redis: str
    pid: int


@dataclass(frozen=True, slots=True)
class Home:
    """`root` keeps what lasts, `run` (short, private, may vanish at reboot) the sockets."""

    root: Path
    run: Path

    @property
    def postgres_data(self) -> Path:
        return self.root / "data" / "postgres"

    @property
    def valkey_data(self) -> Path:
        return self.root / "data" / "valkey"

    @property
    def postgres_run(self) -> Path:
        return self.run / "pg"

    @property
    def valkey_run(self) -> Path:
        return self.run / "vk"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @property
    def state_file(self) -> Path:
        return self.root / "services.json"

    @property
    def ballast(self) -> Ballast:
        return Ballast(self.root / "ballast")

    def prepare(self, account: Account | None = None) -> None:
        """Make the directories; one that already holds something keeps its mode.

        Raises PathTooLong, OutOfReach (naming the directory in the way of `account`), ConfigurationRefused.
        """
        for path in (self.root, self.run):
            if not path.is_absolute():
                raise ConfigurationRefused([f"{path} must be an absolute path"])
        require_short(self.postgres_run / POSTGRES_SOCKET)
        if "," in str(self.run):
            raise ConfigurationRefused(
                [f"the run directory {self.run} has a comma in it, which Postgres splits at"]
            )
        # Servers of another user walk through these three, and cannot list them.
        mode = 0o700 if account is None else 0o711
        for directory in (self.root, self.root / "data", self.run):
            _make(directory, mode)
            require_reach(directory / "inside", account)
        _make(self.logs, 0o700)

    @contextlib.contextmanager
    def lock(self, account: Account | None = None) -> Iterator[None]:
        """Prepare, and be the only one that runs this home and this run directory.

        Raises AlreadyRunning with the other's pid, and what `prepare` raises.
        """
        self.prepare(account)
        with _held(self.lock_file, self.root), _held(self.run / "lock", self.run):
            try:
                yield
            finally:
                self.state_file.unlink(missing_ok=True)

    def publish(self, *, database: str, redis: str) -> None:
        """Tell other processes where the services are; only the holder of the lock may."""
        partial = self.state_file.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(Urls(database, redis, os.getpid())), file)
        partial.replace(self.state_file)

    def running_urls(self) -> Urls | None:
        """Where a living `up` of this home serves; None when none does."""
        try:
            urls = Urls(**json.loads(self.state_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        # A file left by a killed `up` names another process than the one that holds the lock.
        return urls if urls.pid == self.running_pid() else None

    def running_pid(self) -> int:
        """The process that runs this home; 0 when none does."""
        try:
            descriptor = os.open(self.lock_file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return pid_in(self.lock_file)
        finally:
            os.close(descriptor)
        return 0


def _make(directory: Path, mode: int) -> None:
    """A directory of somebody's files may be a home as well, such as /root: its mode is none of our business."""
    directory.mkdir(parents=True, exist_ok=True)
    if directory.stat().st_uid == os.geteuid() and not any(directory.iterdir()):
        directory.chmod(mode)


@contextlib.contextmanager
def _held(file: Path, home: Path) -> Iterator[None]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _take(descriptor, file, home)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, file: Path, home: Path) -> None:
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise AlreadyRunning(home, pid_in(file)) from None
            time.sleep(0.02)
        else:
            return


def pid_in(file: Path) -> int:
    """The number in the first line of a pid file; 0 when there is none."""
    try:
        line = file.read_text(errors="replace").partition("\n")[0].strip()
    except OSError:
        return 0
    return int(line) if line.isascii() and line.isdecimal() and len(line) < 10 else 0
