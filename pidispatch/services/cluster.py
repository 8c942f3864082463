"""Make a new Postgres data directory, with the application's role and database in it."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from pidispatch.services import child
from pidispatch.services.account import Account, give_directory
from pidispatch.services.binaries import PostgresBinaries
from pidispatch.services.faults import ServiceFailed

ADMINISTRATOR = "pidispatch_admin"
ROLE = "pidispatch"
DATABASE = "pidispatch"
_BUILTIN_LOCALES_SINCE = 17
# Each statement may find its work done: a kill between two starts must not leave half a cluster.
_PROVISION = f"""
SELECT 'CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE'
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') \\gexec
SELECT 'CREATE DATABASE {DATABASE} OWNER {ROLE}'
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = '{DATABASE}') \\gexec
"""  # noqa: S608


def create(
    binaries: PostgresBinaries, data_dir: Path, account: Account | None, *, log: Path, durable: bool
) -> None:
    """Run initdb beside `data_dir` and move the result there, so that a half-made one is never started."""
    partial = data_dir.with_name(data_dir.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    give_directory(partial, account)
    argv = [binaries.program("initdb"), "-D", str(partial), "-U", ADMINISTRATOR, "-A", "trust", "-E", "UTF8"]
    argv += ["--locale=C", "--no-instructions"]
    if binaries.major >= _BUILTIN_LOCALES_SINCE:
        # Sort orders of the C library and of ICU change under an index when the machine is upgraded.
        argv += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    if not durable:
        argv.append("--no-sync")
    process = child.start_server(argv, log=child.open_log(log), death_signal=signal.SIGKILL, account=account)
    try:
        if not child.wait_until(lambda: child.exit_status(process) is not None, 120):
            raise ServiceFailed("initdb", "did not end within 120 s", log)
    finally:
        status = child.end(process, ())
    if status != 0:
        raise ServiceFailed("initdb", f"ended with {status}; its log ends:\n{child.log_tail(log)}", log)
    if data_dir.is_dir():
        data_dir.rmdir()
    partial.rename(data_dir)


def provision(binaries: PostgresBinaries, run_dir: Path, *, log: Path) -> None:
    """Make sure that the role and the database exist."""
    argv = [binaries.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    argv += ["-h", str(run_dir), "-U", ADMINISTRATOR, "-d", "postgres"]
    environment = child.SERVER_ENVIRONMENT | {"HOME": os.devnull}
    try:
        done = subprocess.run(
            argv,
            input=_PROVISION,
            env=environment,
            cwd="/",
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceFailed("psql", "creating the database took more than 60 s", log) from error
    if done.returncode != 0:
        raise ServiceFailed("psql", f"could not create the database: {done.stderr.strip()}", log)
