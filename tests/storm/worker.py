"""One worker process of the storm: the real flows on the real Postgres, with stub boxes."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from pidispatch.domain.box.facts import LocalFolder
from pidispatch.domain.limits.policy import Policy, ScopeCaps
from pidispatch.domain.providers.calls import CallEnd
from pidispatch.domain.runs.reconcile import Departure
from pidispatch.domain.runs.session import NotKept
from pidispatch.flows.admit import AdmissionGate
from pidispatch.flows.chain import ChainCollector, ChainLimits
from pidispatch.flows.checks import Checks
from pidispatch.flows.cleanup import Cleanup
from pidispatch.flows.finish import Changes, Finisher
from pidispatch.flows.launch import BoxLimits, Launcher
from pidispatch.flows.sessions import SessionKeeper
from pidispatch.flows.tenure import BoxFinder, Hands, Tenure
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.runs.chains import Chains
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.losses import Losses
from pidispatch.store.runs.sessions import Sessions
from pidispatch.store.runs.transitions import Runs
from pidispatch.upkeep.breakers import BreakerKeeper
from pidispatch.upkeep.orphans import Orphans
from pidispatch.upkeep.reconciler import LostLookers, Reconciler
from tests.fakes.mounts import FakeMounts
from tests.fakes.notes import FakeNotes
from tests.fakes.outside import FakeBell, FakeDoors, FakeFiles, FakeGitBox, FakeImages, FakeSkills
from tests.flows.site import IMAGE, INSTALLATION
from tests.store.builders import IDENTITY
from tests.storm.boxes import StubBoxes
from tests.support.breaking import some_breakers
from tests.support.calls import cost, opened, worst

HOST = "h1"


@dataclass(frozen=True)
class Weather:
    """What all workers of one storm share. `cost` is what each run spends and may spend, in micro-dollars."""

    url: str
    root: str
    capacity: int
    scopes: list[str]
    daily_cap: int
    concurrent: int = 4
    scope_day: int | None = None
    cost: int | None = None
    daily_micros: int | None = None
    seconds: float = 0.03

    def policy(self) -> Policy:
        row = ScopeCaps(day=self.scope_day, concurrent=self.concurrent)
        return Policy(
            provider="scripted",
            model="happy",
            image=IMAGE,
            max_turns=30,
            max_tokens=None,
            concurrency=self.capacity,
            daily_cap=self.daily_cap,
            max_cost_micros=self.cost,
            daily_micros=self.daily_micros,
            by_scope=dict.fromkeys(self.scopes, row),
        )


class StubDoors(FakeDoors):
    """As the gateway does, closing a door settles what the run's calls left open."""

    tickets: PostgresTickets

    def close(self, run_id):
        super().close(run_id)
        self.tickets.assume_calls(run_id)


class StormWorker:
    """A worker's parts, joined as `app` joins them."""

    def __init__(self, weather: Weather, worker: str) -> None:
        database = Database(weather.url, pool_size=2)
        self.weather, self.database = weather, database
        self.hosts = Hosts(database, host=HOST)
        self.hosts.register(
            worker=worker, pid=os.getpid(), version="0", capacity=weather.capacity, identity=IDENTITY
        )
        self.tickets, self.calls = PostgresTickets(database, timeout=600), PostgresCallLedger(database)
        self.boxes = StubBoxes(
            Path(weather.root), self._go, self.tickets.is_preparing, seconds=weather.seconds
        )
        self.runs, self.endings = Runs(database), Endings(database)
        doors, files, self.bell = StubDoors(), FakeFiles(), FakeBell()
        doors.tickets = self.tickets
        notes = FakeNotes()
        hands = Hands(worker, lambda _: Departure.UNKNOWN)
        tenure = Tenure(self.hosts, worker=worker, identity=IDENTITY, engine_id=FakeImages().engine_id)
        finder = BoxFinder(self.boxes, tenure)
        cleanup = Cleanup(boxes=self.boxes, doors=doors, files=files, bell=self.bell)
        self.gate = AdmissionGate(
            admissions=Admissions(database, host=HOST, worker=worker),
            policies=self,
            images=FakeImages(),
            notes=notes,
            may_admit=tenure.may_admit,
            checks=Checks(
                host=HOST,
                images=FakeImages(),
                doors=doors,
                open_folder=open_folder,
                notes=notes,
                held_back=BreakerKeeper(some_breakers(database)).held_back,
                check_skills=FakeSkills().check,
            ),
        )
        sessions = SessionKeeper(
            sessions=Sessions(database), images=FakeImages(), read_session=lambda _: NotKept("absent")
        )
        self.launcher = Launcher(
            host=HOST,
            installation=INSTALLATION,
            runs=self.runs,
            endings=self.endings,
            boxes=self.boxes,
            mounts=FakeMounts(),
            doors=doors,
            files=files,
            open_folder=open_folder,
            head_commit=lambda _: None,
            sessions=sessions,
            read_skills=FakeSkills().read,
            cleanup=cleanup,
            limits=BoxLimits(1 << 30, 1.0, 600),
            hands=hands,
        )
        self.finisher = Finisher(
            host=HOST,
            runs=self.runs,
            occupants=self.runs,
            workspaces=self.runs,
            folder_change=lambda _: None,
            endings=self.endings,
            reports=self.tickets,
            boxes=self.boxes,
            finder=finder,
            doors=doors,
            chains=self._no_chains(database),
            changes=Changes(chains=Chains(database), gitbox=FakeGitBox(), open_folder=open_folder),
            redact=bytes,
            sessions=sessions,
            cleanup=cleanup,
            notes=notes,
            clock=database.now,
        )
        self.reconciler = Reconciler(
            host=HOST,
            installation=INSTALLATION,
            occupants=self.runs,
            runs=self.runs,
            boxes=self.boxes,
            watch=self.boxes,
            finder=finder,
            tenure=tenure,
            finisher=self.finisher,
            hands=hands,
            orphans=Orphans(
                installation=INSTALLATION,
                boxes=self.boxes,
                doors=doors,
                files=files,
                occupants=self.runs,
                open_doors=list,
            ),
            bell=self.bell,
            hosts=self.hosts,
            lost_lookers=LostLookers(notes, Losses(database, host=HOST)),
            sweep=lambda: 0,
            clock=database.now,
        )
        self._policy = weather.policy()

    def close(self) -> None:
        self.database.close()

    def _no_chains(self, database):
        return ChainCollector(
            chains=Chains(database),
            read_outbox=lambda _: (),
            gitbox=FakeGitBox(),
            open_folder=open_folder,
            head_commit=lambda _: None,
            policies=self,
            limits=ChainLimits(depth=0),
            redact=bytes,
        )

    def current(self):
        return self._policy

    def work(self) -> bool:
        """Admit one run and see it through; False when nothing may start."""
        claim = self.gate.admit()
        if claim is None:
            return False
        self.launcher.start(claim)
        container = self.runs.facts(claim.run_id).container_id
        if container is not None:
            self.boxes.wait(container)
        self.finisher.finish(claim.run_id)
        return True

    def look(self) -> None:
        """One pass of the reconciler, and every finish that it rang for."""
        self.reconciler.look()
        for future in list(self.reconciler._busy.values()):
            future.result(timeout=20)
        heard, self.bell.finishes = self.bell.finishes, []
        for run_id in heard:
            self.finisher.finish(run_id)

    def _go(self, run_id: int, attempt: int, container: str) -> bool:
        """The go, and the one call that the box makes: of a known price, or one whose answer got lost."""
        if not self.tickets.give_go(run_id, attempt, container):
            return False
        if self.weather.cost is not None:
            call = opened(self.calls, run_id, attempt, worst=worst(self.weather.cost))
            if run_id % 2:
                self.calls.settle_call(call, CallEnd(200, "stop", tokens_in=3), cost(self.weather.cost))
            else:
                self.tickets.assume_calls(run_id)
        return True


def open_folder(path: bytes) -> LocalFolder:
    inode = int.from_bytes(path[-8:])
    return LocalFolder(path.decode(), 1, inode, 1000, 1000, path.decode().rsplit("/", 1)[-1])


def main(weather: Weather, name: str, errors: Path) -> None:
    """Work until SIGTERM; what is said goes to the file `errors`."""
    with errors.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    over: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: over.append(number))
    worker = StormWorker(weather, name)
    while not over:
        if not worker.work():
            time.sleep(0.02)
