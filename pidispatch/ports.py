"""What the flows need from the outside, as small Protocols; the contract lives here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from pidispatch.domain.arrival import Arrival, Arrived, Delivery
from pidispatch.domain.ask import Terms
from pidispatch.domain.catchup import Slot
from pidispatch.domain.chaintree import ChainAnswer, Harvest
from pidispatch.domain.disks import FileSystem
from pidispatch.domain.files.inforce import FileLook, InForce, KeptContent
from pidispatch.domain.hostidentity import Contender, Identity
from pidispatch.domain.limits import Cap
from pidispatch.domain.oneshot import Spent
from pidispatch.domain.outbox import Letter
from pidispatch.domain.outcome import Again, End
from pidispatch.domain.policy import Basis, Policy
from pidispatch.domain.rates import CostClass, Doubt, Rating
from pidispatch.domain.run import AttemptFacts, BoxEnd, Claim, Job, Occupant, Waiting, Workspace
from pidispatch.domain.sandbox import BoxSpec, Inode, Mount
from pidispatch.domain.session import FRESH, KeptSession, NotKept, Staged
from pidispatch.domain.standing import Entry, Standing
from pidispatch.domain.triggers import Disarmed, Triggers
from pidispatch.domain.waiting import HeldRun, Step


class Gate(Protocol):
    """What the `Admission` middleware asks before an actor may start anything."""

    def admit(self) -> Claim | None:
        """Admit the next due run of this host, or None when nothing may start. Never admits on an error."""


Facts = dict[str, Any]
"""The gates a run passed and the numbers they saw, as JSON; read back by `pidispatch explain`."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What the cheap checks found for one waiting run: what is in force, the folder's identity, its limits.

    `mutex` is the scope key of the folder by host, device and inode; None for runs without a folder. `within` are those of
    the directories it lies in, and `owner` is its user. `concurrent`
    bounds the runs at a time of a scope, `capacity` those of this host. `basis` are the operator's files that the limits were read from.
    """

    terms: Terms
    image_id: str
    engine_id: str
    mutex: str | None
    caps: tuple[Cap, ...]
    capacity: int
    concurrent: Mapping[str, int]
    project: str | None
    facts: Facts
    basis: Sequence[Basis] = ()
    within: Sequence[str] = ()
    owner: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    claim: Claim


@dataclass(frozen=True, slots=True)
class Deferred:
    """Not now. `until` is when it is due again, where that is known."""

    cause: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str
    why: str | None


@dataclass(frozen=True, slots=True)
class Passed:
    """Somebody else changed the run since it was looked at."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The host is full; the run stays as it was."""


Answer = Admitted | Deferred | Refused | Passed | NoRoom


class Admissions(Protocol):
    """The admission transaction, and the answers that need no reservation. Raises DatabaseUnavailable."""

    def next_due(self, passed: Sequence[int]) -> Waiting | None:
        """The run that should start next on this host, leaving out ids in `passed`. For a moment nobody else is given it."""

    def admit(self, run: Waiting, ready: Ready) -> Answer:
        """Pause, folder, scopes, capacity, windows, reservation and state change: together or not at all."""

    def defer(self, run: Waiting, *, cause: str, until: datetime, facts: Facts) -> None:
        """Not now: the run is due again at `until`."""

    def refuse(
        self, run: Waiting, *, refusal: Refused, provider: str | None, model: str | None, facts: Facts
    ) -> None:
        """Not at all: the run ends as policy, holding nothing that was not spent."""

    def sync(self, bounds: Mapping[str, int], *, capacity: int) -> None:
        """Make the bounds of scopes and of this host known to every look-up."""


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """A breaker that opened, or was closed by a success: of which trigger, and by the end of which run."""

    trigger_id: str
    opened: bool
    run: str
    reason: str | None
    failures: int
    probe_at: datetime | None


@dataclass(frozen=True, slots=True)
class Counted:
    """How many ended runs were counted, and what came of it."""

    endings: int = 0
    changes: Sequence[BreakerChange] = ()


class Breakers(Protocol):
    """The breakers of triggers, kept up with the runs that ended. Both raise DatabaseUnavailable."""

    def count(self) -> Counted:
        """Count some of the ended runs, each once whoever counts; what another process counts is left to it."""

    def held_back(self, run_id: int) -> str | None:
        """`breaker-open`; `breaker-counting` while an ending of its trigger is not counted; None: it may start."""


class KeptFiles(Protocol):
    """The last good content of each of the operator's files, the same for all processes of a host.

    `tells`: who reads through it says in the log what was read and what changed; one that looks in passing does not.
    """

    tells: bool

    def agree(self, name: str, place: str, look: Callable[[KeptContent | None], FileLook]) -> InForce:
        """Look at the files of `place`, their paths, one a line, while nobody else does, knowing what was last good, and keep what is good now.

        So what is kept follows the order of the edits: an older content never takes the place of a newer one.
        Raises DatabaseUnavailable.
        """


class Policies(Protocol):
    def current(self) -> Policy | Refused:
        """The limits in force now, read anew; Refused when they cannot be read, so that nothing may start."""


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A directory that was opened: its path without links, and the identity the folder's lock uses.

    `around` are the identities of the directories it lies in, from the nearest to the root.
    """

    path: str
    device: int
    inode: int
    uid: int
    gid: int
    basename: str
    around: tuple[Inode, ...] = ()

    @property
    def identity(self) -> Inode:
        return self.device, self.inode


OpenFolder = Callable[[bytes], LocalFolder]
"""Look at a folder through an open descriptor. Raises FolderRefused."""


@dataclass(frozen=True, slots=True)
class JobPaths:
    """Host directories of one box: `job` is mounted read-only, `outbox` and `session` are the job's own."""

    job: str
    outbox: str
    session: str


class HostFiles(Protocol):
    """The files of a box on the host, by the box's name."""

    def prepare(
        self, name: str, files: Mapping[str, bytes], *, uid: int, gid: int, session: bytes = b""
    ) -> JobPaths:
        """Lay out `files` (relative path to content) and pi's session. Raises DiskFull, BoxFault."""

    def outbox(self, name: str) -> str:
        """The host directory that the box has as its outbox, whether it exists or not."""

    def session(self, name: str) -> str:
        """The host directory of its session, whether it exists or not."""

    def remove(self, name: str) -> None:
        """Remove them, whatever the job made of its outbox; only after the container is gone. Idempotent."""

    def leftovers(self) -> Sequence[str]:
        """Names of the boxes that have files here."""


ReadOutbox = Callable[[str], Sequence[Letter]]
"""The requests that the box of this name left, in order, in bounded time and memory. Never raises."""

CheckSkills = Callable[[bytes], None]
"""See whether a directory of skills is there. Raises FolderRefused."""

ReadSkills = Callable[[bytes], Mapping[str, bytes]]
"""The files of a directory of skills by their relative paths, in bounded time and memory. Raises FolderRefused."""

ReadSession = Callable[[str], bytes | NotKept]
"""The session that the box of this name left, in bounded memory, with secrets hidden.

Raises GatewayUnavailable where nobody can say what its secrets are.
"""


class Sessions(Protocol):
    def kept(self, run_id: int) -> KeptSession | None:
        """The session that was kept of this run; None when none was, or it is deleted. Raises DatabaseUnavailable."""


HeadCommit = Callable[[str], str | None]
"""The commit that a folder's HEAD names, read from its files; None when they do not say. Never raises."""


@dataclass(frozen=True, slots=True)
class ChainParent:
    """What a run hands down: `commit` is what its folder's HEAD named before its agent started.

    `cost_cap_micros` is what it was asked to spend at most, None for as configured.
    """

    kind: str
    public_id: str
    depth: int
    folder: bytes | None
    image: str | None
    cost_cap_micros: int | None
    commit: str | None


class Chains(Protocol):
    """Both raise DatabaseUnavailable."""

    def parent(self, run_id: int) -> ChainParent:
        """What the children of this run would inherit."""

    def answers(self, run_id: int) -> Sequence[ChainAnswer]:
        """What became of the requests of a run that has ended, of at most 100 of them."""


class Arrivals(Protocol):
    """A delivery and its answer are written together. Raise DatabaseUnavailable."""

    def answered(self, source: str, delivery_id: str) -> Arrived | None:
        """What the same delivery would be told now, as a duplicate; None while it would be decided."""

    def arrive(self, arrival: Arrival) -> Arrived:
        """One decision for one subject at a time. Ring for every answer but skipped, duplicate and dropped."""

    def drop(self, delivery: Delivery, reason: str) -> Arrived:
        """Nothing starts. The same delivery sent again may be decided anew; a duplicate is told as one."""


class OneShots(Protocol):
    """The one-shot triggers that are spent. Raise DatabaseUnavailable."""

    def to_mark(self) -> Sequence[Spent]:
        """Those whose run got its go and has ended, and whose mark in the file nobody has noted yet."""

    def marked_in(self, place: str) -> Sequence[Spent]:
        """Those whose mark was written into the file that `place` names."""

    def marked(self, spent: Spent, place: str) -> bool:
        """Note that the file holds the mark; the first place stays. False when it was armed again meanwhile."""

    def rearm_unmarked(self, spent: Spent, by: str) -> bool:
        """Somebody deleted the mark: archive and audit. False when it was armed, or spent anew, meanwhile."""

    def rearm(self, key: str, by: str) -> str:
        """Archive and audit at an operator's word; returns the run that had spent it. Raises CannotRearm."""


class TriggersFile(Protocol):
    """The file of triggers on this host. `place` names it in rows; no path, which would be personal."""

    @property
    def place(self) -> str: ...

    def current(self) -> Triggers | None:
        """What it holds now, read anew; None when it cannot be used."""

    def mark(self, key: str, mark: Disarmed | None) -> bool:
        """Put the mark into the entry of this identity, or take it out. False: no such entry, or not possible now."""


@dataclass(frozen=True, slots=True)
class Unrunnable:
    """An instant of a schedule that leads to no run. `reason` is the word of its slot."""

    reason: str


MakeRun = Callable[[Entry, Slot, datetime | None], Arrival | Unrunnable]
"""One instant of an entry and the run that it would start; the last argument is when the schedule's run before it ended, or started."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What one look at the schedules did. `due`: how many were due; `runs`: how many runs may start at once.

    `now` is Postgres's clock, `next_at` the next instant of any schedule of this host; None: none will come.
    """

    now: datetime
    due: int
    runs: int
    next_at: datetime | None


class Schedules(Protocol):
    """The schedules of this host, as rows. `now` None is Postgres's clock. Raises DatabaseUnavailable."""

    def sync(self, current: Callable[[], Standing], now: datetime | None = None) -> Standing:
        """Make the entries known: new ones are planned from now on, those that are gone stop, an edit takes effect.

        `current` is asked while no other process can sync, so an older file never follows a newer one. Instants that
        came before an edit of their pattern and have no slot yet get it here, by the old pattern.
        """

    def plan(self, standing: Standing, now: datetime | None = None) -> Planned:
        """Give the instants that have come their slots and runs, a bounded number of schedules, in one transaction.

        What another process plans at this moment is left to it, and so is what was synced with other entries.
        """


class Waits(Protocol):
    """The runs that are held for something named. Raises DatabaseUnavailable."""

    def claim(self, *, asking: bool, slots: int) -> HeldRun | None:
        """Take a due one for a look, for as long as a look may last; whoever dies with it loses it then.

        With `asking` one whose programs are to be asked, while fewer than `slots` are being asked anywhere.
        """

    def settle(self, held: HeldRun, step: Step) -> Step | None:
        """Write what was decided; returns what was written, None when the claim is stale and nothing was.

        A start is written as superseded when another run of its key has been let go meanwhile.
        """

    def seconds_to_next(self) -> float | None:
        """Until one is due that nobody looks at; negative when it has been for a while. None: there is none."""


@dataclass(frozen=True, slots=True)
class CheckEnd:
    """How a check program ended: `exit_code` None when it was killed, or never ran (`problem` says why).

    `broken_off` when it was us who could not wait; `output_bytes` are counted, never kept.
    """

    exit_code: int | None
    output_bytes: int = 0
    problem: str | None = None
    broken_off: bool = False


class WaitChecks(Protocol):
    def ask(self, program: str, target: str) -> CheckEnd:
        """Run `program` with the target as its only argument, bounded in time; what it started is ended too."""

    def break_off(self) -> None:
        """End every program that runs now, and let none begin."""


class Runs(Protocol):
    """Move a run forward. A write whose epoch is stale raises StaleEpoch. Raises DatabaseUnavailable."""

    def preparing(self, claim: Claim) -> Job:
        """Admitted to preparing; returns what the attempt needs."""

    def boxed(
        self,
        claim: Claim,
        *,
        container_id: str,
        name: str,
        commit_before: str | None = None,
        session: Staged = FRESH,
    ) -> Claim:
        """Preparing to running, with the container recorded: only from here on can it get its go.

        `commit_before` is what the folder's HEAD named while no agent could write there; `session` is what its box was
        given.
        """

    def stopping(self, claim: Claim, *, reason: str) -> Claim:
        """Running to stopping: asked to stop, not proven gone."""

    def finishing(self, claim: Claim) -> Claim:
        """Any occupying state to finishing; a finisher that died is followed by another."""

    def facts(self, run_id: int) -> AttemptFacts:
        """What the rows know of the current attempt."""


class Workspaces(Protocol):
    """The folders of runs at work. Raises DatabaseUnavailable."""

    def workspaces(self, host: str) -> Sequence[Workspace]:
        """Those of every run of this host whose box may be at work, and that nobody has asked to stop."""

    def workspace(self, run_id: int) -> Workspace | None:
        """None for a run that works in no folder of somebody's."""


FolderChange = Callable[[Workspace], str | None]
"""What has become of an admitted folder, in words; None: it is where and whose it was.

Raises OSError where nobody can tell.
"""


class Occupants(Protocol):
    """Read who holds a slot. Raises DatabaseUnavailable."""

    def occupants(self, host: str) -> Sequence[Occupant]:
        """Every run of this host in an occupying state."""

    def occupant(self, run_id: int) -> Occupant | None:
        """One run, None when it holds no slot."""

    def request_stop(self, run_id: int, *, reason: str) -> bool:
        """Ask an occupying run to stop; True when this was the first ask."""


class Endings(Protocol):
    """The last transaction of an attempt. Raises StaleEpoch, DatabaseUnavailable."""

    def end(
        self,
        claim: Claim,
        verdict: End,
        box: BoxEnd,
        *,
        harvest: Harvest | None = None,
        session: KeptSession | NotKept | None = None,
    ) -> bool:
        """Write the terminal record, settle or give back, free the slot: together. False while a call is open.

        The children in `harvest` are queued with it, or not at all; so is `session` kept.
        """

    def again(self, claim: Claim, verdict: Again, box: BoxEnd) -> bool:
        """Queue the run for another attempt and free its slot. False while a call is open."""


class Hosts(Protocol):
    """The host and worker that this process is, as rows. Raises DatabaseUnavailable."""

    def register(
        self, *, worker: str, pid: int, version: str, capacity: int, identity: Identity
    ) -> str | Sequence[Contender]:
        """Make both known; returns the installation: 8 hex digits for container labels.

        While other machines live under the name, nothing is written but the refusal, and they are returned.
        """

    def beat(self, worker: str, identity: Identity) -> Sequence[Contender]:
        """Say that both live, and which engine this worker has by now; returns who else lives under the name."""

    def leave(self, worker: str) -> None:
        """The worker ends in good order."""

    def bells_due(self) -> int:
        """How many bells should hang now: what may start, never more than the room for it."""

    def tidy(self) -> int:
        """Delete payloads whose time is over, workers that are long gone, and some of what arrived long ago.

        Returns how many payloads.
        """


class Notes(Protocol):
    """What this worker has in hand, noted where the note outlives it: so a run that ends its workers is known for it.

    Only work on what the run brought along is noted, never a wait for another part: who is killed while it waits for
    the gateway was not killed by the run.
    """

    def looking_at(self, run_id: int, epoch: int) -> AbstractContextManager[None]:
        """Note that the run, which waits at this epoch, is being considered for admission."""

    def finishing(self, run_id: int) -> AbstractContextManager[None]:
        """Note that the run's end is being read and written."""

    def lookers_lost(self) -> Sequence[tuple[int, int]]:
        """Run and epoch of each look that workers of this host did not survive."""

    def finishers_lost(self, run_id: int) -> int:
        """How many workers of this host did not survive finishing this run."""


@dataclass(frozen=True, slots=True)
class NotNow:
    """Somebody holds the run's row: nothing was changed, and it is asked again later, waiting for nobody."""


class Losses(Protocol):
    def lost_over(self, run_id: int, epoch: int) -> Again | End | NotNow | None:
        """Count a worker that ended while it looked at the waiting run, as an attempt of its own that cost nothing.

        Returns what became of the run; None, changing nothing, when it has moved on since: that counts elsewhere, or
        was counted. Raises DatabaseUnavailable.
        """


class Bell(Protocol):
    """Wake the workers of a host. A bell may be lost or doubled; the rows in Postgres decide."""

    def ring_start(self, host: str, times: int = 1) -> None:
        """Say that a run may be due. Raises QueueUnavailable."""

    def ring_finish(self, host: str, run_id: int) -> None:
        """Say that this run's box has ended. Raises QueueUnavailable."""

    def pending(self, host: str) -> int:
        """How many bells wait unheard. Raises QueueUnavailable."""


@dataclass(frozen=True, slots=True)
class BoxState:
    """What the engine says of one container. `status` is Docker's word; times are aware UTC or None.

    `writes` are the paths of the host that it may write to, and
    `reads` those that it may only read, each by its place in the box.
    """

    container_id: str
    name: str
    status: str
    exit_code: int | None
    oom_killed: bool
    error: str
    started_at: datetime | None
    finished_at: datetime | None
    labels: dict[str, str]
    writes: Mapping[str, str] = field(default_factory=dict)
    reads: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.status in {"exited", "dead"}


class Boxes(Protocol):
    """Make and end containers. Every method raises EngineUnavailable when the engine does not answer."""

    def create(self, spec: BoxSpec) -> str:
        """Create, never pull, and return the container's id. Raises ImageMissing, NameTaken, DiskFull, BoxFault."""

    def start(self, container_id: str) -> None:
        """Start a container once; the caller has looked that it never ran. Raises BoxFault and its kinds."""

    def stop(self, container_id: str, *, grace: int) -> None:
        """SIGTERM, `grace` seconds, SIGKILL. A container that is gone or ended is not an error."""

    def remove(self, container_id: str) -> None:
        """Kill if need be, and remove. A container that is gone is not an error."""

    def tail(self, container_id: str, limit: int) -> bytes:
        """The last `limit` bytes of its output, both streams; empty when it is gone. Memory stays bounded."""


Measure = Callable[[Mapping[str, str]], Sequence[FileSystem]]
"""The file systems of places (word for people → path), each once. What cannot be looked at is left out. Never raises."""

WrittenBy = Callable[[str], int | None]
"""Bytes that a running box ever wrote towards a disk, by its container's id; None when that cannot be known. Never raises."""


class Mounts(Protocol):
    """What a box gets is what was looked at, whatever its name leads to by then.

    The mounts in `hold` are of two kinds: with an identity, a folder that others can exchange; without, what lies in
    places of ours.
    """

    def hold(self, box: str, mounts: Sequence[Mount]) -> AbstractContextManager[Sequence[Mount]]:
        """The mounts to make the box with, each with its identity, good until it has started.

        Raises FolderRefused (`workspace-gone`), BoxFault.
        """

    def check(self, container_id: str, mounts: Sequence[Mount]) -> None:
        """Compare the live mounts of a started box before it may go. One that has ended needs no comparison.

        Raises FolderRefused (`workspace-gone`), BoxFault, EngineUnavailable.
        """


class BoxWatch(Protocol):
    """Look at containers without touching them."""

    def engine_id(self) -> str:
        """Which engine answers now: asked, never remembered. Raises EngineUnavailable."""

    def inspect(self, container_id: str) -> BoxState | None:
        """None when the engine answers that there is no such container. Raises EngineUnavailable."""

    def ours(self, installation: str) -> Sequence[BoxState]:
        """Every container with this installation's label, in any state. Raises EngineUnavailable."""

    def deaths(self, installation: str) -> Iterator[str]:
        """Yield ids of our containers as they die, until the engine stops answering (EngineUnavailable)."""

    def output(self, container_id: str, *, follow: bool) -> Iterator[bytes]:
        """Chunks of the output as kept by the engine, for people."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What `image inspect` says: id, the labels, and whether its architecture runs on this engine."""

    image_id: str
    labels: dict[str, str]
    architecture: str
    runs_here: bool


class Images(Protocol):
    def facts(self, tag: str) -> ImageFacts | None:
        """None when the engine has no such image. Raises EngineUnavailable."""

    def engine_id(self) -> str:
        """The engine's own id. Raises EngineUnavailable."""


@dataclass(frozen=True, slots=True)
class FolderState:
    """What git in a box says of a folder: is it the root of a repository, its commit, is it dirty.

    `changed` names up to three paths that make it so, in printable characters.
    """

    is_root: bool
    head: str | None
    dirty: bool
    problem: str | None
    changed: tuple[str, ...] = ()


class GitBox(Protocol):
    """Ask git about a folder an agent may have written, in a throw-away container without network."""

    def state(self, folder: LocalFolder, *, image: str) -> FolderState:
        """As its owner's git sees it. Bounded to 10 s.

        Raises EngineUnavailable, ImageMissing, BoxFault, and FolderRefused when it is not the folder that was opened.
        """

    def diff(self, folder: LocalFolder, *, since: str, image: str) -> bytes:
        """The change of the work tree against commit `since`, bounded. Raises as `state`."""

    def skills(
        self, folder: LocalFolder, *, commit: str, flows: Sequence[str], image: str
    ) -> Mapping[str, bytes]:
        """The SKILL.md of each flow that has one at `commit`, proven by its hash: the folder cannot lie here."""


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """What the gateway knows of a provider: its wire API, whether pi knows it by itself, whether a key is set.

    `rating`, `context_window` and `max_tokens` are of the model that was asked about; the last two in tokens, None
    where an operator's file does not say. `busy_until`: until then calls of that model are held back. `lacks` is the word for a
    key that is missing, `key_source` where it was found, for people (None: none is needed, or there is none);
    `model_listed`: an operator's file names the model.
    """

    name: str
    api: str
    known_to_pi: bool
    credential: bool
    rating: Rating = Rating.UNKNOWN
    busy_until: datetime | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool | None = None
    model_listed: bool = False
    lacks: str | None = None
    key_source: str | None = None


class Doors(Protocol):
    """The gateway as the worker sees it, over its control socket. Raises GatewayUnavailable."""

    def open(self, run_id: int) -> str:
        """Listen for this run's current attempt; returns the host directory to mount at /gate."""

    def close(self, run_id: int) -> None:
        """End the run's door: no new calls, open calls drained or aborted and settled. Idempotent."""

    def provider(self, name: str, model: str | None = None, run: int | None = None) -> ProviderFacts | None:
        """None when the gateway knows no such provider. `model` is one of its models to be told about, and `run` a run
        that may have to wait for it alone.
        """

    def remove(self, run_id: int) -> None:
        """Close the door and remove the socket's directory; only after the container is proven gone. Idempotent.

        Leaves alone what an attempt that holds a slot by now has opened.
        """


Redact = Callable[[bytes], bytes]
"""What is to be kept of a run, with every known secret in it masked. Raises GatewayUnavailable."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the gateway needs to know of a run it opens a door for. `egress`: hosts it may reach besides those of all."""

    run_id: int
    public_id: str
    attempt: int
    provider: str
    egress: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How one model call ended, as the gateway measured it.

    `status` is the upstream's HTTP status (0: no answer), `stop_reason` one of stop, tool_use, length, error,
    aborted or None. Tokens are counts; `tokens_in` leaves cached ones out, `cache_write` includes `cache_write_1h`.
    `measured` is false when the provider's last word is missing, or is in `doubt`: the numbers are then the most that the
    call may have used, but for those of the input where `input_told`.
    """

    status: int
    stop_reason: str | None
    tokens_in: int = 0
    tokens_out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    measured: bool = True
    cache_write_1h: int = 0
    input_told: bool = False
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True)
class Worst:
    """What a call may use at most, in micro-dollars and tokens; `least_*` with its output as short as it may be made.

    Micros None: no price is known, so nothing can be said. `others` are the models that may answer besides the one that
    was asked for; None: nobody can tell.
    """

    micros: int | None = None
    least_micros: int | None = None
    tokens: int = 0
    least_tokens: int = 0
    others: tuple[str, ...] | None = ()


NOTHING_KNOWN = Worst()


@dataclass(frozen=True, slots=True)
class CallOpened:
    """The call's row is committed. It may use `micros` and `tokens`, between its least and its most; None: no cap."""

    call_id: int
    micros: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class CallRefused:
    """The run may not make this call.

    closed: it is not live, asked to stop, or has no go; stopped: an operator stopped all calls; model-not-allowed;
    model-policy-unenforceable: there is a list of models, and nobody can tell which would answer;
    turn-cap, token-cap, cost-cap: it would pass the run's cap; cost-cap-unenforceable: there is a cap and no price.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call came to: micro-dollars (None without a price), how sure that is, and by which prices."""

    micros: int | None
    cost_class: CostClass
    version: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run has used of its caps, settled and held; a cap of None is no cap. Micro-dollars, tokens, calls.

    `held_*` is the part of it that calls under way hold: the most they may come to.
    """

    micros: int
    cap_micros: int | None
    tokens: int
    cap_tokens: int | None
    turns: int
    cap_turns: int | None
    held_micros: int = 0
    held_tokens: int = 0


class Tickets(Protocol):
    """The gateway's view of runs. Every method raises DatabaseUnavailable."""

    def occupying(self, host: str) -> Sequence[Ticket]:
        """The runs of this host that hold a slot; their sockets are opened again at boot."""

    def ticket(self, run_id: int) -> Ticket | None:
        """None when the run does not exist or holds no slot."""

    def is_preparing(self, run_id: int, attempt: int) -> bool:
        """Whether this attempt's box may be recorded yet, so that it could get its go a moment later."""

    def give_go(self, run_id: int, attempt: int, container: str) -> bool:
        """True exactly once for one attempt: its row is live, the attempt current, `container` (at least 12 hex
        digits of the id) the one recorded for it, and no go was given before.
        """

    def keep_report(self, run_id: int, attempt: int, report: dict[str, Any], *, verified: bool) -> None:
        """Keep the runner's report of an attempt; a verified one is never replaced."""


class Reports(Protocol):
    def keep_telemetry(self, run_id: int, attempt: int, said: dict[str, Any]) -> None:
        """Keep what a box's exit line said; its code, reason and turns stand in for a report where no signed one is.

        Raises DatabaseUnavailable.
        """

    def assume_calls(self, run_id: int) -> int:
        """No gateway answers: turn this run's open calls into `assumed`. Raises DatabaseUnavailable."""


class Stops(Protocol):
    def stopped(self, host: str) -> Collection[int]:
        """The runs of this host that hold a slot and may make no call. Raises DatabaseUnavailable, DatabaseRefused."""


@dataclass(frozen=True, slots=True)
class EgressUse:
    """What one run did at one host since it was last written: counts to add up.

    `reason` is a word of `domain.egress.Reason`. `first_ago` and `last_ago` are seconds before now.
    """

    run_id: int
    host: str
    port: int
    allowed: bool
    reason: str
    connections: int
    bytes_up: int
    bytes_down: int
    first_ago: float
    last_ago: float


class EgressUses(Protocol):
    """What runs reached, or tried to reach, outside of their boxes."""

    def add(self, run_id: int, uses: Sequence[EgressUse]) -> None:
        """Add up in one transaction; nothing for a run that is gone. Raises DatabaseUnavailable.

        A run has a bounded number of rows of each kind, let through and blocked; past it they are added up as the host `*`.
        """


class CallLedger(Protocol):
    """One row for each model call: written before the first byte goes upstream, settled after."""

    def open_call(
        self, run_id: int, attempt: int, *, provider: str, model: str, api: str, worst: Worst = NOTHING_KNOWN
    ) -> CallOpened | CallRefused:
        """Hold what the call may use against what is left of the run's caps, as a committed row. Calls of a run take turns."""

    def settle_call(self, call_id: int, end: CallEnd, cost: Cost | None = None) -> None:
        """Write how it ended: settled when measured, else assumed at what it used at most, its hold or less.

        A second settlement of one call changes nothing.

        An end that comes after the call was assumed is written as an adjustment, and changes what the run has settled.
        """

    def budget(self, run_id: int) -> Budget | None:
        """None for a run that does not exist."""

    def assume_open(self, host: str, opened_before: datetime) -> int:
        """Turn calls that an earlier gateway left open into `assumed`, at what they held; returns how many."""


Clock = Callable[[], datetime]
