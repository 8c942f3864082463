"""A whole installation as separate processes, each of which a test may kill and a supervisor starts again."""

import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import text

from pidispatch.app.up import worker_command
from pidispatch.domain.runs.names import folder_mutex, folder_scope
from pidispatch.domain.runs.run import NewRun
from pidispatch.entrypoints.scripted import ScriptedProvider, ScriptedRequest
from pidispatch.errors import DatabaseUnavailable
from pidispatch.gateway.client import NAME as CONTROL
from pidispatch.gateway.client import ControlDoors
from pidispatch.services.account import server_account
from pidispatch.services.cluster import DATABASE
from pidispatch.services.faults import ServiceFailed
from pidispatch.services.postgres import EmbeddedPostgres
from pidispatch.services.program import Program
from pidispatch.services.valkey import EmbeddedValkey
from pidispatch.store import migrating
from pidispatch.store.database import Database
from tests.fault.clock import Clock
from tests.fault.engine import Engine
from tests.fault.failpoints import VARIABLE as FAILPOINTS
from tests.support.disks import ext4_disk
from tests.support.pace import Pace
from tests.support.patience import LONGER
from tests.support.pooler import Pooler
from tests.support.submitting import submit as submit_run

ROOT = Path(__file__).parents[2]
OWNER = 12345 if os.geteuid() == 0 else os.geteuid()
RESTART_SECONDS = 1.0  # what a supervisor waits


class House:
    """Postgres, Valkey, a gateway, a worker of two processes, and a scripted provider in this process.

    `tick` is the supervisor: it starts again what died a second ago. Only the main thread may use a house.
    `actors` is the module that the worker loads, `settings` are more variables for it and the gateway. `disks` are the file
    systems that a fault may fill, by name; `pooled`: all of them reach Postgres through PgBouncer.
    """

    def __init__(
        self,
        root: Path,
        engine: Engine,
        clock: Clock,
        provider: ScriptedProvider,
        *,
        actors: str = "tests.fault.actors",
        settings: Mapping[str, str] | None = None,
        disks: Mapping[str, Path] | None = None,
        pooled: bool = False,
    ) -> None:
        self.disks = disks or {}
        self.root, self.engine, self.clock, self.provider = root, engine, clock, provider
        self._actors, self._settings = actors, settings or {}
        self._asked: list[str] = []
        self.pace = Pace()
        provider.pace = self.pace
        self.host = f"fault-{secrets.token_hex(3)}"
        self.failpoints = root / "failpoints"
        self.failpoints.mkdir()
        account = server_account()
        programs = clock.programs()
        self.postgres = EmbeddedPostgres(root / "data" / "postgres", root / "p", account, programs)
        self.valkey = EmbeddedValkey(root / "data" / "valkey", root / "v", account)
        self.pooler = Pooler(root / "b", root / "p", account) if pooled else None
        self.home = root / "home"
        self._due: dict[str, float] = {}
        self._not_started: set[str] = set()
        self._programs: dict[str, Program] = {}

    def start(self) -> None:
        data = self.root / "data"
        data.mkdir(exist_ok=True)
        data.chmod(0o711)  # the servers' user walks through
        self.valkey.start()
        self.postgres.start()
        if self.pooler is not None:
            self.pooler.start()
        self.database = Database(self.url, pool_size=2, application="fault harness")
        migrating.upgrade(self.database)
        self.home.mkdir(exist_ok=True)
        environment = self._environment()
        doors = ControlDoors(self.home / "run" / CONTROL)
        self.gateway = Program(
            "gateway",
            [sys.executable, "-m", "tests.fault.gateway"],
            environment | {"SCRIPTED_API_KEY": "sk-test"},
            self.root / "gateway.log",
            doors.ready,
            cwd=ROOT,
        )
        self._programs["gateway"] = self.gateway
        self.gateway.start()
        command = worker_command(processes=2, threads=4)
        command[command.index("pidispatch.actors")] = self._actors
        self.worker = Program(
            "worker",
            command,
            environment | self.clock.environment(),
            self.root / "worker.log",
            lambda: self.live_workers() >= 2,
            cwd=ROOT,
        )
        self._programs["worker"] = self.worker
        self.worker.start()
        self.installation = str(self.value("SELECT installation FROM hosts"))
        self.engine.follow(self.installation, self.root / "events.jsonl")

    def stop(self) -> None:
        for program in self._programs.values():
            if program.poll() is None:  # a cell that was broken off may have left one stopped
                kill(program.pid, signal.SIGCONT)
            for process in self.worker_processes():
                kill(process.pid, signal.SIGCONT)
        for name in reversed(self._programs):
            self._programs[name].stop()
        if hasattr(self, "database"):
            self.database.close()
        self.engine.remove_all(getattr(self, "installation", "none"))
        if self.pooler is not None:
            self.pooler.stop()
        self.postgres.stop()
        self.valkey.stop()

    @property
    def url(self) -> str:
        return self.postgres.url() if self.pooler is None else self.pooler.url(DATABASE)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(ROOT),
            "PIDISPATCH_HOME": str(self.home),
            "PI_WORKER_NAME": self.host,
            "DATABASE_URL": self.url,
            "REDIS_URL": self.valkey.url(),
            "PIDISPATCH_UPSTREAM_SCRIPTED": f"{self.provider.url}/v1",
            "PI_PROVIDER": "scripted",
            "PI_MODEL": "exit",
            "PI_DAILY_CAP": "100000",
            "PI_JOB_MEMORY": "512m",
            FAILPOINTS: str(self.failpoints),
            **self.engine.environment(),
            **self._settings,
        }

    # -- the supervisor

    def tick(self) -> None:
        """Start again whatever died at least a second ago; called often."""
        now = time.monotonic()
        parts = {"postgres": self.postgres, "valkey": self.valkey, "dockerd": self.engine}
        for name, part in (parts | ({"pgbouncer": self.pooler} if self.pooler else {})).items():
            down = part.poll() is not None or name in self._not_started
            if down and now >= self._due.setdefault(name, now + RESTART_SECONDS):
                del self._due[name]
                self._not_started.discard(name)
                try:
                    part.start()
                except ServiceFailed:  # as on a full disk: a supervisor tries again
                    self._not_started.add(name)
        for name, program in self._programs.items():
            if program.poll() is None:
                continue
            if name not in self._due:
                program.bury()
                self._due[name] = now + RESTART_SECONDS
            elif now >= self._due[name]:
                del self._due[name]
                program.restart()

    def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Tick until it holds; false when it did not within `seconds`."""
        end = time.monotonic() + LONGER * seconds
        while not holds():
            if time.monotonic() > end:
                return False
            self.tick()
            time.sleep(0.05)
        return True

    def is_well(self) -> bool:
        """Everything runs, answers, and two worker processes give signs of life."""
        try:
            alive = all(
                part.poll() is None for part in (self.postgres, self.valkey, self.engine, self.gateway)
            )
            ready = ControlDoors(self.home / "run" / CONTROL).ready()
            pids = [child.pid for child in self.worker_processes()]
            return (
                alive and ready and self.worker.poll() is None and len(pids) == 2 and self._registered(pids)
            )
        except (DatabaseUnavailable, psutil.NoSuchProcess):
            return False

    def _registered(self, pids: list[int]) -> bool:
        found = self.rows("SELECT pid FROM workers WHERE heartbeat_at > clock_timestamp() - interval '15 s'")
        return set(pids) <= {row["pid"] for row in found}

    def answering(self) -> bool:
        """Whether Postgres and Docker answer: from then on the promise counts."""
        try:
            self.value("SELECT 1")
        except DatabaseUnavailable:
            return False
        return self.engine.answers()

    # -- runs

    def submit(self, name: str, *, rings: bool = True) -> int:
        """A run in a folder of its own. Whether a bell rings for it at once is the caller's choice."""
        folder = self.root / "repos" / name
        folder.mkdir(parents=True)
        os.chown(folder, OWNER, OWNER)
        found = folder.stat()
        run_id = submit_run(
            self.database,
            NewRun(
                public_id=f"{self.host}-{name}",
                folder=str(folder).encode(),
                folder_given=str(folder).encode(),
                task=f"work in {name}".encode(),
                task_bytes=8 + len(name),
                event=b"{}",
                scope=folder_scope(str(folder)),
                mutex=folder_mutex(self.host, found.st_dev, found.st_ino),
                target=f"local:{name}",
                pinned_host=self.host,
            ),
        )
        assert run_id is not None
        return run_id

    def rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with self.database.transaction() as connection:
            return [dict(row) for row in connection.execute(text(statement), values).mappings()]

    def value(self, statement: str, **values: Any) -> Any:
        return next(iter(self.rows(statement, **values)[0].values()))

    def asked_about(self, task: str) -> Sequence[ScriptedRequest]:
        """What the provider was asked with this text in it."""
        self._asked += [str(call.body) for call in self.provider.asked[len(self._asked) :]]
        return [call for call, said in zip(self.provider.asked, self._asked, strict=False) if task in said]

    def live_workers(self) -> int:
        return int(self.value("SELECT count(*) FROM workers"))

    # -- processes

    def worker_processes(self) -> list[psutil.Process]:
        """The worker's processes, without its master."""
        with suppress(psutil.NoSuchProcess, AttributeError):
            children = psutil.Process(self.worker.pid).children()
            return [child for child in children if child.status() != psutil.STATUS_ZOMBIE]
        return []

    def arm(self, step: str) -> None:
        for old in self.failpoints.iterdir():
            old.unlink()
        (self.failpoints / f"arm.{step}").touch()

    def reached(self, step: str) -> int | None:
        """The process that stands at the step."""
        found = next(self.failpoints.glob(f"reached.{step}.*"), None)
        return None if found is None else int(found.suffix[1:])

    def let_go(self, step: str) -> None:
        (self.failpoints / f"arm.{step}").unlink(missing_ok=True)
        (self.failpoints / f"go.{step}").touch()
        self.pace.let_go()


SMALL_DISKS = {"data": 1 << 30, "home": 1 << 29, "repos": 1 << 29}


@contextmanager
def a_house(
    engine: Engine,
    clock: Clock,
    *,
    disks: Mapping[str, Path] | None = None,
    small: bool = False,
    **options: Any,
) -> Iterator[House]:
    """A house for the length of the block, with a short path that other users may walk through.

    With `small` the servers' data, the home and the folders of runs have a file system each.
    """
    root = Path(tempfile.mkdtemp(prefix="pdf-", dir="/tmp"))
    root.chmod(0o711)
    with ScriptedProvider() as provider, ExitStack() as stack:
        mine = dict(disks or {})
        for name, size in SMALL_DISKS.items() if small else ():
            mine[name] = stack.enter_context(ext4_disk(root / name, size=size))
            mine[name].chmod(0o711)
        house = House(root, engine, clock, provider, disks=mine, **options)
        try:
            house.start()
            yield house
        finally:
            house.stop()
            stack.close()
            if os.environ.get("PIDISPATCH_FAULT_KEEP") is None:
                shutil.rmtree(root, ignore_errors=True)


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
