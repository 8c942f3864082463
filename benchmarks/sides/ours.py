"""Ours: a whole `pidispatch up` in a home of its own, asked through the product's own code."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Self

import docker
from sides.floor import Specimen
from sides.marker import SETTLE, Site
from sides.report import Step
from sides.steps import Timed, read_steps
from sqlalchemy import text

from pidispatch.app.installation import addresses
from pidispatch.config import load
from pidispatch.domain.box.sandbox import LABEL_INSTALLATION
from pidispatch.domain.triggers.arrival import Arrival, Arrived, Delivery
from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.flows.ingest import Ingest, LocalRequest
from pidispatch.queue.bells import RedisBell
from pidispatch.queue.broker import make_broker
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.gitbox import DockerGitBox
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.runtime.workspace import open_folder
from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.triggers.arrivals import Arrivals

BOOT_SECONDS, RUN_SECONDS = 60.0, 60.0


class TimedArrivals:
    """The product's own, noting when its commit returned."""

    def __init__(self, database: Database) -> None:
        self._own = Arrivals(database)
        self.committed = 0.0

    def answered(self, source: str, delivery_id: str) -> Arrived | None:
        return self._own.answered(source, delivery_id)

    def arrive(self, arrival: Arrival) -> Arrived:
        arrived = self._own.arrive(arrival)
        self.committed = time.time()
        return arrived

    def drop(self, delivery: Delivery, reason: str) -> Arrived:
        return self._own.drop(delivery, reason)


class Ours:
    """Each run is real to its end; the next is asked when nothing of it is left."""

    name = "pidispatch"

    def __init__(self, home: Path, image: str, root: Path) -> None:
        self._home, self._image, self._root = home, image, root
        self._times: list[Timed] = []

    def __enter__(self) -> Self:
        self._home.mkdir(mode=0o711)
        self._site = Site(self._home / "site")
        self._provider = ScriptedProvider().__enter__()
        environment = self._environment()
        self._settings = load(environment, None)
        self._log = self._home / "up.log"
        with self._log.open("w") as log:
            self._up = subprocess.Popen(
                [sys.executable, "-m", "pidispatch", "up"], env=environment, cwd="/", stdout=log, stderr=log
            )
        self._until(
            lambda: "ready in" in self._log.read_text(), BOOT_SECONDS, "`pidispatch up` says that it is ready"
        )
        where = addresses(self._settings)
        self.redis_url = where.redis
        self._database = Database(where.database)
        self._engine = Engine()
        hosts = Hosts(self._database, host=self._settings.worker_name)
        self._installation = hosts.installation(capacity=self._settings.concurrency)
        return self

    def _environment(self) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("PATH", "LANG", "HOME", "DOCKER_HOST") if name in os.environ
        }
        return kept | {
            "PYTHONPATH": str(self._root),
            "PIDISPATCH_HOME": str(self._home / "home"),
            "PI_PROVIDER": "scripted",
            "PI_MODEL": "happy",
            "PI_JOB_IMAGE": self._image,
            "PIDISPATCH_UPSTREAM_SCRIPTED": f"{self._provider.url}/v1",
            "PIDISPATCH_PROVIDER_API_SCRIPTED": "openai-completions",
            "SCRIPTED_API_KEY": "a-key-that-stays-in-the-gateway",
            "PI_DAILY_CAP": "10000",
        }

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._up.send_signal(signal.SIGINT)
        self._up.wait(60)
        self._provider.__exit__(None, None, None)

    def _until(self, look: Callable[[], bool], seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not look():
            if self._up.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"not within {seconds:g} s: {what}\n{self._log.read_text()[-3000:]}")
            time.sleep(0.1)

    def measure(self, number: int) -> float:
        arrivals = TimedArrivals(self._database)
        with self._site.watched() as watch:
            public_id = self._ask(arrivals, number)
            rung = time.time()
            first = watch.seen()
        self._times.append(Timed(public_id, arrivals.committed, rung, first))
        self._await_end(public_id)
        return (first - arrivals.committed) * 1000

    def _ask(self, arrivals: TimedArrivals, number: int) -> str:
        """As `pidispatch run` does in a process of its own: nothing is open to Redis yet."""
        broker = make_broker(self.redis_url)
        ingest = Ingest(
            host=self._settings.worker_name,
            arrivals=arrivals,
            bell=RedisBell(broker),
            gitbox=self._git_box(),
            open_folder=partial(open_folder, worker_uid=os.geteuid()),
            default_image=self._settings.job_image,
            clock=lambda: datetime.now(UTC),
        )
        asked = ingest.submit(LocalRequest(str(self._site.folder), f"task {number}".encode(), force=True))
        broker.close()
        if asked.duplicate or not asked.rung:
            raise SystemExit(f"not asked as it should be: {asked}")
        return asked.public_id

    def _await_end(self, public_id: str) -> None:
        self._until(lambda: self._state(public_id)[0] == "ended", RUN_SECONDS, f"the end of {public_id}")
        outcome = self._state(public_id)[1]
        if outcome != "completed":
            raise SystemExit(f"{public_id} ended {outcome}\n{self._log.read_text()[-3000:]}")
        label = {"label": f"{LABEL_INSTALLATION}={self._installation}"}
        self._until(
            lambda: not self._engine.api.containers(all=True, filters=label), 10, "its box is removed"
        )
        time.sleep(SETTLE)

    def _state(self, public_id: str) -> tuple[str, str | None]:
        with self._database.transaction() as connection:
            question = text("SELECT state, outcome FROM runs WHERE public_id = :id")
            state, outcome = connection.execute(question, {"id": public_id}).one()
        return state, outcome

    def ask_git(self, site: Site) -> None:
        """What `pidispatch run` does right before its commit; before the other sides too, so that each meets
        an engine that has just done the same."""
        folder = open_folder(str(site.folder), worker_uid=os.geteuid())
        self._git_box().state(folder, image=self._image)

    def _git_box(self) -> DockerGitBox:
        mounts = DockerMounts(self._engine, self._settings.run_dir)
        return DockerGitBox(self._engine, installation=self._installation, mounts=mounts)

    def specimen(self) -> Specimen:
        """One run, looked at while it lives."""
        api = docker.APIClient(version="auto")
        arrivals = TimedArrivals(self._database)
        with self._site.watched() as watch:
            public_id = self._ask(arrivals, -1)
            self._first = Timed(public_id, arrivals.committed, time.time(), watch.seen())
        (box,) = api.containers(all=True, filters={"label": f"{LABEL_INSTALLATION}={self._installation}"})
        facts = api.inspect_container(box["Id"])
        job = next(mount["Source"] for mount in facts["HostConfig"]["Mounts"] if mount["Target"] == "/job")
        kept = self._home / "specimen"
        shutil.copytree(job, kept)
        self._await_end(public_id)
        api.close()
        return Specimen(facts, kept)

    def steps(self, *, skip: int) -> list[Step]:
        return read_steps(self._settings.logs_dir / "worker.log", self._times[skip:])

    def first_steps(self) -> list[Step]:
        """The steps of the first run that this worker process ever started."""
        return read_steps(self._settings.logs_dir / "worker.log", [self._first])
