"""Run everything in one foreground process tree: services, schema, image, gateway, worker."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from pidispatch import shipped
from pidispatch.app.fulldisk import end_writers, full_disk, make_room, say_why
from pidispatch.app.hostname import await_host_name
from pidispatch.app.installation import Addresses, Installation, addresses, home_of
from pidispatch.app.jobimage import ensure_image
from pidispatch.app.providerfile import forwarded_environment, key_variables, provider_entries
from pidispatch.config import AT_SIGTERM, AtSigterm, Settings
from pidispatch.config.environment import environment
from pidispatch.domain import words
from pidispatch.errors import PidispatchError
from pidispatch.ports import KeptFiles
from pidispatch.services.account import Account, server_account
from pidispatch.services.home import Home
from pidispatch.services.postgres import EmbeddedPostgres
from pidispatch.services.supervisor import Asked, Died, StopAsked, Tree
from pidispatch.services.valkey import EmbeddedValkey
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.keptfiles import KeptFilesToRead
from pidispatch.store.runs.transitions import Runs


def embedded_valkey(home: Home, account: Account | None) -> EmbeddedValkey:
    """Valkey of a prepared home."""
    return EmbeddedValkey(home.valkey_data, home.valkey_run, account, log=home.logs / "valkey.log")


def embedded_postgres(home: Home, account: Account | None, *, durable: bool = True) -> EmbeddedPostgres:
    """Postgres of a prepared home."""
    return EmbeddedPostgres(
        home.postgres_data, home.postgres_run, account, log=home.logs / "postgres.log", durable=durable
    )


Say = Callable[[str], None]

STOP_SECONDS = 60.0


class UpFailed(PidispatchError):
    """A part of `up` died and cannot be restarted."""


def run_up(settings: Settings, *, detach_runs: bool, say: Say) -> None:
    """Return when asked to stop and everything has stopped. Raises AlreadyRunning, ServiceFailed, UpFailed."""
    try:
        with running(settings, environment(), say) as (tree, here):
            say("Ctrl-C stops")
            ballast = home_of(settings).ballast
            _end(
                tree.run(lambda: ballast.make(settings.ballast)),
                here,
                detach_runs=detach_runs,
                say=say,
            )
            say("stopping")
    except StopAsked:
        say("stopped before everything had started")


@contextmanager
def running(
    settings: Settings, everything: Mapping[str, str], say: Say, *, echo: bool = True
) -> Iterator[tuple[Tree, Installation]]:
    """Services, schema, image, gateway and worker, for as long as the block lasts; from the main thread only.

    `everything` is the environment of the children, with secrets; `echo` shows what they log.
    """
    began = time.monotonic()
    home = home_of(settings)
    ended = make_room(settings, home, say)
    with home.lock(server_account()), Tree(home.logs, echo=_without_servers(say) if echo else None) as tree:
        where = _start_services(settings, home, tree, say)
        with Installation(settings, application="pidispatch up", connections=2, where=where) as here:
            here.upgrade(say)
            say_why(ended, Runs(here.database))
            kept = KeptFilesToRead(here.database, host=here.host)
            forwarded_environment(
                settings, everything, kept
            )  # refused here, not by each new start of a worker
            ensure_image(here, say)
            _start_ours(here, everything, tree)
            say(f"ready in {time.monotonic() - began:.1f} s")
            yield tree, here


def _end(ending: Asked | Died, here: Installation, *, detach_runs: bool, say: Say) -> None:
    match ending:
        case Asked() if not detach_runs:
            stop_runs(here, say)
        case Asked():
            say("running boxes are left to the next `pidispatch up`")
        case Died(name, status):
            raise UpFailed(
                f"{name} died with status {status}; see {here.home.logs / name}.log{_why_full(here.settings, say)}"
            )


def _why_full(settings: Settings, say: Say) -> str:
    """Servers die of a full disk first; then nobody is left to end the box that fills it."""
    disk = full_disk(settings)
    if disk is None:
        return ""
    end_writers(settings, disk, say)
    return f"; full: {disk.in_words()}: make room and start `pidispatch up` again, which frees its ballast to start"


def _without_servers(say: Say) -> Say:
    """What the database servers log stays in their files; a person wants to see the gateway and the worker."""
    return lambda line: None if line.startswith(("postgres", "valkey")) else say(line)


def _start_services(settings: Settings, home: Home, tree: Tree, say: Say) -> Addresses:
    """Configured addresses are used as they are; only what has none is started here."""
    account = server_account()
    redis = settings.broker_url.get_secret_value() if settings.broker_url else None
    database = settings.database_url.get_secret_value() if settings.database_url else None
    if redis is None:
        say("starting Valkey")
        valkey = embedded_valkey(home, account)
        tree.adopt(valkey)
        redis = valkey.url()
    if database is None:
        say("starting Postgres")
        postgres = embedded_postgres(home, account)
        tree.adopt(postgres)
        database = postgres.url()
    home.publish(database=database, redis=redis)
    return Addresses(database, redis)


def _start_ours(here: Installation, everything: Mapping[str, str], tree: Tree) -> None:
    await_host_name(here)
    settings, database = here.settings, here.database
    hosts = Hosts(database, host=here.host)
    tree.add(
        "gateway",
        [sys.executable, "-m", "pidispatch.entrypoints.gateway"],
        everything,
        ready=here.gateway.ready,
        stop_grace=40.0,
        cwd=settings.home,
    )
    began: datetime = database.now()
    tree.add(
        "worker",
        worker_command(processes=1, threads=4),
        without_keys(everything, settings, KeptFilesToRead(database, host=settings.worker_name))
        | {AT_SIGTERM: AtSigterm.LEAVE_RUNS},  # `up` itself decides on runs
        ready=lambda: hosts.has_worker_since(began),
        cwd=settings.home,
    )


def worker_command(*, processes: int, threads: int) -> list[str]:
    """`--path` is where dramatiq would look for modules: a folder of ours, never the one a person stands in."""
    counts = ["--processes", str(processes), "--threads", str(threads)]
    return [
        sys.executable, "-m", "dramatiq", "pidispatch.actors", *counts,
        "--path", str(shipped.folder("migrations")),
    ]  # fmt: skip


def without_keys(
    everything: Mapping[str, str], settings: Settings, kept: KeptFiles | None = None
) -> dict[str, str]:
    """The environment of a worker: provider keys are the gateway's alone."""
    secret = key_variables(settings, provider_entries(settings, kept))
    return {name: value for name, value in everything.items() if name not in secret}


def exec_worker(
    settings: Settings, *, processes: int, threads: int, at_sigterm: AtSigterm | None = None
) -> None:
    """Become the worker, after the same checks it makes itself: here their errors are one line.

    `at_sigterm` is None for what is configured.
    """
    with Installation(settings, application="pidispatch", where=addresses(settings)) as here:
        kept = KeptFilesToRead(here.database, host=here.host)
        await_host_name(here)
        forwarded_environment(settings, environment(), kept)
        own = without_keys(environment(), settings, kept)
    if at_sigterm is not None:
        own[AT_SIGTERM] = at_sigterm
    command = worker_command(processes=processes, threads=threads)
    settings.home.mkdir(parents=True, exist_ok=True)
    os.chdir(settings.home)
    os.execve(command[0], command, own)  # noqa: S606 - the same program, no shell


def stop_runs(here: Installation, say: Say) -> None:
    """Name the live runs, ask them to stop, and wait until their records are written."""
    runs = Runs(here.database)
    live = runs.occupants(here.host)
    for run in live:
        say(f"stopping {run.public_id}")
        runs.request_stop(run.run_id, reason=words.SHUTDOWN)
    deadline = time.monotonic() + STOP_SECONDS
    while runs.occupants(here.host) and time.monotonic() < deadline:
        time.sleep(0.25)
    for run in runs.occupants(here.host):
        say(f"{run.public_id} has not stopped; the next `pidispatch up` goes on with it")
