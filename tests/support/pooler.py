"""PgBouncer between a client and a Postgres: sessions are lent for one transaction only."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from pidispatch.services import child
from pidispatch.services.account import Account, give_directory
from pidispatch.services.cluster import ROLE

PORT = 6432
# Debian's 1.18 refuses a startup parameter that it does not know; nothing of ours may need an exception.
CONFIGURATION = """
[databases]
* = host={server} port=5432
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
unix_socket_mode = 0700
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 500
server_round_robin = 1
query_wait_timeout = 20
logfile =
pidfile =
"""


def program() -> str | None:
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")


class Pooler:
    """`sessions` are what each database has for all its clients; each transaction gets the one used longest ago."""

    def __init__(self, folder: Path, server: Path, account: Account | None, *, sessions: int = 6) -> None:
        self.folder, self._account = folder, account
        self._file = folder / "pgbouncer.ini"
        self._text = CONFIGURATION.format(server=server, port=PORT, folder=folder, sessions=sessions)
        self._log = folder / "pgbouncer.log"

    def start(self) -> None:
        give_directory(self.folder, self._account)
        (self.folder / "users").write_text(f'"{ROLE}" ""\n')
        (self.folder / "users").chmod(0o644)
        self._file.write_text(self._text)
        self._file.chmod(0o644)
        (self.folder / f".s.PGSQL.{PORT}").unlink(missing_ok=True)
        argv = [str(program()), str(self._file)]
        log = child.open_log(self._log)
        self._process = child.start_server(argv, log=log, death_signal=signal.SIGKILL, account=self._account)
        socket = self.folder / f".s.PGSQL.{PORT}"
        child.wait_ready("pgbouncer", self._process, socket.exists, seconds=30, log=self._log)

    def poll(self) -> int | None:
        return child.exit_status(self._process)

    def kill(self) -> None:
        child.send(self._process, signal.SIGKILL)

    def stop(self) -> None:
        child.end(self._process, ((signal.SIGINT, 10.0),))
        (self.folder / f".s.PGSQL.{PORT}").unlink(missing_ok=True)

    def url(self, database: str, role: str = ROLE) -> str:
        return f"postgresql+psycopg://{role}@/{database}?host={quote(str(self.folder), safe='')}&port={PORT}"


@contextmanager
def a_pooler(folder: Path, server: Path, account: Account | None, **options: int) -> Iterator[Pooler]:
    pooler = Pooler(folder, server, account, **options)
    pooler.start()
    try:
        yield pooler
    finally:
        pooler.stop()
