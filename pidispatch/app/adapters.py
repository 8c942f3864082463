"""The outside of a worker process: what its flows and threads talk to."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog

from pidispatch.app.hostname import identity_of
from pidispatch.app.installation import Installation
from pidispatch.app.keeping import OF_WORKERS, kept_files
from pidispatch.app.policy import FilePolicies
from pidispatch.app.providerfile import forwarded_environment
from pidispatch.app.rooms import box_files_of
from pidispatch.app.secrets import known_secrets
from pidispatch.app.standing import StandingTriggers, standing_triggers
from pidispatch.config import Place, Settings
from pidispatch.config.environment import environment
from pidispatch.domain.health.hostidentity import Identity
from pidispatch.domain.text.redaction import Redactor
from pidispatch.domain.triggers.breaker import Rules
from pidispatch.domain.triggers.oneshot import marked_by_another
from pidispatch.domain.triggers.trigger import Disarmed
from pidispatch.domain.triggers.wait import WaitBounds
from pidispatch.files import MarkedFile
from pidispatch.flows.tenure import BoxFinder, Hands, Tenure
from pidispatch.ports import Bell
from pidispatch.runtime.jobfiles import JobFiles, Sizing
from pidispatch.runtime.workspace import folder_change, open_folder
from pidispatch.services.lifelines import Lifelines
from pidispatch.services.notes import WorkerNotes
from pidispatch.services.waitcheck import GRACE_SECONDS, CheckPrograms
from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.keptfiles import KeptFilesToRead
from pidispatch.store.runs.calls import PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.losses import Losses
from pidispatch.store.runs.oneshots import OneShots
from pidispatch.store.runs.transitions import Runs
from pidispatch.store.runs.waits import Waits
from pidispatch.store.triggers.breakercount import Breakers
from pidispatch.upkeep.breakers import BreakerKeeper
from pidispatch.upkeep.marking import Marking, mark_logged
from pidispatch.upkeep.reconciler import LostLookers
from pidispatch.upkeep.waiting import WaitKeeper


def mark_keeper(database: Database, path: Path | None, *, host: str) -> Callable[[], None]:
    """What the reconciler does with each look; nothing without a file."""
    if path is None:
        return lambda: None
    return partial(mark_logged, Marking(OneShots(database), MarkedFile(path, host=host)))


def mark_reader(triggers: StandingTriggers) -> Callable[[str, str], Disarmed | None]:
    """What admission asks of a one-shot and a run: the mark in force that holds it back."""
    return lambda key, run: marked_by_another(triggers.current(), key, run)


SLACK_SECONDS = 3.0  # beside its time and its end: the start of the program, and writing down what it said


def wait_keeper(settings: Settings, database: Database, *, host: str, worker: str, bell: Bell) -> WaitKeeper:
    timeout = settings.wait_check_timeout.total_seconds()
    return WaitKeeper(
        host=host,
        waits=Waits(
            database, host=host, worker=worker, check_seconds=timeout + GRACE_SECONDS + SLACK_SECONDS
        ),
        # The home of the user that we are, not of whoever started us.
        checks=CheckPrograms(timeout=timeout, home=Place.here({}).user_home),
        programs=settings.wait_programs,
        bounds=WaitBounds(
            interval=settings.wait_interval,
            wait_max=settings.wait_max,
            after_max=settings.wait_after_max,
            checks_max=settings.wait_max_checks,
            faults_max=settings.wait_max_faults,
        ),
        slots=settings.check_slots,
        bell=bell,
        clock=database.now,
    )


log = structlog.get_logger(__name__)


@dataclass
class Adapters:
    """The outside of one worker process, opened once."""

    here: Installation
    worker: str

    def redact(self, data: bytes) -> bytes:
        """`ports.Redact`: what this process knows, and what the gateway alone knows."""
        return self.doors.redact(self._own_secrets.data(data))

    @property
    def host(self) -> str:
        return self.here.host

    @property
    def settings(self) -> Settings:
        return self.here.settings

    def __post_init__(self) -> None:
        runtime = self.here.runtime()
        self.database = self.here.database
        self.engine = runtime.engine
        self.lifelines = Lifelines(self.settings.run_dir / "workers")
        self.hands = Hands(self.worker, self.lifelines.departure)
        self.notes = WorkerNotes(self.lifelines)
        self.boxes, self.images, self.mounts = runtime.boxes, runtime.images, runtime.mounts
        self.git_box = runtime.git_box
        self.doors = self.here.gateway
        self._own_secrets = Redactor(known_secrets(self.settings))
        self.files = JobFiles(self.settings.jobs_dir, Sizing(box_files_of(self.settings), runtime.sight.sees))
        self.runs = Runs(self.database)
        self.endings = Endings(self.database)
        self.hosts = Hosts(self.database, host=self.host)
        self.lost_lookers = LostLookers(self.notes, Losses(self.database, host=self.host))
        self.reports = PostgresTickets(self.database, timeout=self.settings.job_timeout)
        self.kept_files = kept_files(self.settings, self.database, self._own_secrets, OF_WORKERS)
        self.policies = FilePolicies(self.settings, self.kept_files)
        self.breakers = BreakerKeeper(
            Breakers(self.database, rules=_rules(self.settings), actor=f"pidispatch@{self.host}")
        )
        self.triggers = standing_triggers(self.settings, self.kept_files)
        self.forwarded = forwarded_environment(
            self.settings, environment(), KeptFilesToRead(self.database, host=self.host)
        )
        self.open_folder = partial(open_folder, worker_uid=os.geteuid())
        self.folder_change = partial(folder_change, host=self.host)

    def identity(self) -> Identity:
        """Which engine and place stand behind this host's name."""
        return identity_of(self.settings, self.images)

    def stand(self, identity: Identity) -> None:
        """From here on this worker is known under the host's name."""
        self.tenure = Tenure(
            self.hosts, worker=self.worker, identity=identity, engine_id=self.images.engine_id
        )
        self.finder = BoxFinder(self.boxes, self.tenure)


def _rules(settings: Settings) -> Rules:
    return Rules(settings.breaker_failures, timedelta(seconds=settings.breaker_backoff))
