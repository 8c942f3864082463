"""A worker's flows joined on a real Postgres, with fakes below the other ports."""

import zlib

from sqlalchemy import text

from pidispatch.app.adapters import mark_keeper, mark_reader
from pidispatch.app.standing import StandingTriggers
from pidispatch.domain.box.facts import LocalFolder
from pidispatch.domain.limits.admission import Refused
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.runs.outbox import Letter
from pidispatch.domain.runs.reconcile import Departure
from pidispatch.domain.runs.session import NotKept
from pidispatch.errors import FolderRefused
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
from pidispatch.upkeep.workspaces import WorkspaceWatch
from tests.fakes.boxes import FakeBoxes
from tests.fakes.mounts import FakeMounts
from tests.fakes.notes import FakeNotes
from tests.fakes.outside import (
    FakeBell,
    FakeDoors,
    FakeFiles,
    FakeGitBox,
    FakeImages,
    FakeSkills,
)
from tests.store.builders import HOST, IDENTITY, WORKER
from tests.support.breaking import some_breakers
from tests.support.image import IMAGE

INSTALLATION = "0badcafe"


class Site:
    """One host: `admit()`, `start(claim)`, `finish(run)`, `look()`, and everything they touched."""

    def __init__(
        self,
        database: Database,
        capacity: int = 3,
        *,
        boxes=None,
        files=None,
        notes=None,
        installation: str = INSTALLATION,
        triggers_file=None,
        worker: str = WORKER,
        identity=IDENTITY,
    ) -> None:
        self.database, self.installation = database, installation
        self.hosts = Hosts(database, host=HOST)
        self.registered = self.hosts.register(
            worker=worker, pid=1, version="0", capacity=capacity, identity=identity
        )
        self.boxes, self.images, self.doors = boxes or FakeBoxes([IMAGE]), FakeImages(), FakeDoors()
        self.images.engine = identity.engine_id
        if isinstance(self.boxes, FakeBoxes):
            self.boxes.engine = identity.engine_id
        self.seconds = 0.0  # of the clock by which the last heartbeat grows old
        self.tenure = Tenure(
            self.hosts,
            worker=worker,
            identity=identity,
            engine_id=self.images.engine_id,
            now=lambda: self.seconds,
        )
        self.finder = BoxFinder(self.boxes, self.tenure)
        self.notes = notes or FakeNotes()
        self.files, self.bell = files or FakeFiles(), FakeBell()
        self.runs, self.endings = Runs(database), Endings(database)
        self.tickets, self.ledger = PostgresTickets(database, timeout=60), PostgresCallLedger(database)
        self.refused_folders: dict[bytes, str] = {}
        self.changed_folders: dict[bytes, str | OSError] = {}
        self.folders: dict[bytes, LocalFolder] = {}
        self.mounts = FakeMounts()
        self.workspace_watch = WorkspaceWatch(
            host=HOST, workspaces=self.runs, occupants=self.runs, folder_change=self.folder_change
        )
        self.skills = FakeSkills()
        self.full: str | None = None  # which file system lacks room, in words
        self.policy: Policy | Refused = Policy(
            provider="scripted",
            model="happy",
            image=IMAGE,
            max_turns=30,
            max_tokens=None,
            concurrency=capacity,
            daily_cap=25,
        )
        self.head: str | None = "a" * 40
        self.gitbox, self.letters = FakeGitBox(), dict[str, tuple[Letter, ...]]()
        self.gone_workers: set[str] = set()
        self.left_workers: set[str] = set()
        self.hands = Hands(worker, self.departure)
        self.triggers = StandingTriggers(triggers_file)
        cleanup = Cleanup(boxes=self.boxes, doors=self.doors, files=self.files, bell=self.bell)
        self.breakers = BreakerKeeper(some_breakers(database))
        self.gate = AdmissionGate(
            admissions=Admissions(database, host=HOST, worker=worker),
            may_admit=self.tenure.may_admit,
            policies=self,
            images=self.images,
            notes=self.notes,
            checks=Checks(
                host=HOST,
                images=self.images,
                doors=self.doors,
                open_folder=self.open_folder,
                notes=self.notes,
                held_back=self.breakers.held_back,
                check_skills=self.skills.check,
                mark=mark_reader(self.triggers),
                lacks_room=lambda _folder: self.full,
            ),
        )
        self.left = dict[str, bytes | NotKept]()
        sessions = SessionKeeper(
            sessions=Sessions(database),
            images=self.images,
            read_session=lambda box: self.left.get(box, NotKept("not-a-regular-file")),
        )
        self.launcher = Launcher(
            host=HOST,
            installation=installation,
            runs=self.runs,
            endings=self.endings,
            boxes=self.boxes,
            mounts=self.mounts,
            doors=self.doors,
            files=self.files,
            open_folder=self.open_folder,
            head_commit=lambda _: self.head,
            sessions=sessions,
            read_skills=self.skills.read,
            cleanup=cleanup,
            limits=BoxLimits(1 << 30, 1.0, 60, chain_depth=1, chain_requests=2),
            hands=self.hands,
        )
        self.chains = self.collector(ChainLimits(depth=1))
        self.finisher = Finisher(
            host=HOST,
            runs=self.runs,
            occupants=self.runs,
            workspaces=self.runs,
            folder_change=self.folder_change,
            endings=self.endings,
            reports=self.tickets,
            boxes=self.boxes,
            finder=self.finder,
            doors=self.doors,
            chains=self.chains,
            changes=Changes(chains=Chains(self.database), gitbox=self.gitbox, open_folder=self.open_folder),
            redact=self.redact,
            sessions=sessions,
            cleanup=cleanup,
            notes=self.notes,
            clock=self.now,
        )
        self.offset = "0 seconds"
        self.reconciler = Reconciler(
            host=HOST,
            installation=installation,
            occupants=self.runs,
            runs=self.runs,
            boxes=self.boxes,
            watch=self.boxes,
            finder=self.finder,
            tenure=self.tenure,
            finisher=self.finisher,
            hands=self.hands,
            orphans=Orphans(
                installation=installation,
                boxes=self.boxes,
                doors=self.doors,
                files=self.files,
                occupants=self.runs,
                open_doors=lambda: sorted(self.doors.directories),
            ),
            bell=self.bell,
            hosts=self.hosts,
            lost_lookers=LostLookers(self.notes, Losses(database, host=HOST)),
            sweep=lambda: 0,
            clock=self.now,
            mark=mark_keeper(database, triggers_file, host=HOST),
        )

    def collector(self, limits):
        return ChainCollector(
            chains=Chains(self.database),
            read_outbox=lambda box: self.letters.get(box, ()),
            gitbox=self.gitbox,
            open_folder=self.open_folder,
            head_commit=lambda _: self.head,
            policies=self,
            limits=limits,
            redact=self.redact,
        )

    def departure(self, worker):
        if worker in self.left_workers:
            return Departure.LEFT
        return Departure.DIED if worker in self.gone_workers else Departure.UNKNOWN

    def redact(self, data):
        return self.doors.redact(data)

    def current(self):
        """The site is its own `ports.Policies`: set `policy` to change what is in force."""
        return self.policy

    def now(self):
        with self.database.transaction() as connection:
            return connection.execute(
                text("SELECT clock_timestamp() + CAST(:offset AS interval)"), {"offset": self.offset}
            ).scalar_one()

    def open_folder(self, path):
        if path in self.refused_folders:
            raise FolderRefused(self.refused_folders[path], "refused by the test")
        if path in self.folders:
            return self.folders[path]
        inode = zlib.crc32(path)  # any stable number will do
        return LocalFolder(path.decode(), 1, inode, 1000, 1000, path.decode().rsplit("/", 1)[-1])

    def folder_change(self, workspace):
        change = self.changed_folders.get(workspace.folder)
        if isinstance(change, OSError):
            raise change
        return change

    def started(self):
        """Admit the next run and start it; returns its claim and its container."""
        claim = self.gate.admit()
        assert claim is not None
        self.launcher.start(claim)
        return claim, self.container(claim.run_id)

    def container(self, run_id):
        return self.runs.facts(run_id).container_id

    def go(self, claim):
        assert self.tickets.give_go(claim.run_id, claim.attempt, self.container(claim.run_id)[:12])

    def look(self):
        """One pass of the reconciler, with what it set going done."""
        self.reconciler.look()
        for future in list(self.reconciler._busy.values()):
            future.result(timeout=20)

    def hear_finishes(self):
        heard, self.bell.finishes = self.bell.finishes, []
        for run_id in heard:
            self.finisher.finish(run_id)

    def nothing_is_left(self):
        return not self.boxes.ours(self.installation) and not self.doors.directories and not self.files.kept
