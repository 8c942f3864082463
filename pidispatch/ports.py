"""What the flows need from the outside, as small Protocols; the contract lives here."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from pidispatch.domain.box.disks import FileSystem
from pidispatch.domain.box.facts import BoxState, FolderState, ImageFacts, JobPaths, LocalFolder
from pidispatch.domain.box.sandbox import BoxSpec, Mount
from pidispatch.domain.egress.allowlist import EgressUse
from pidispatch.domain.files.inforce import FileLook, InForce, KeptContent
from pidispatch.domain.limits.admission import Refused
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.providers.calls import (
    NOTHING_KNOWN,
    Budget,
    CallEnd,
    CallOpened,
    CallRefused,
    Cost,
    ProviderFacts,
    Ticket,
    Worst,
)
from pidispatch.domain.runs.outbox import Letter
from pidispatch.domain.runs.run import Claim, Workspace
from pidispatch.domain.runs.session import NotKept
from pidispatch.domain.triggers.trigger import Disarmed, Triggers


class Gate(Protocol):
    """What the `Admission` middleware asks before an actor may start anything."""

    def admit(self) -> Claim | None:
        """Admit the next due run of this host, or None when nothing may start. Never admits on an error."""


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


OpenFolder = Callable[[bytes], LocalFolder]
"""Look at a folder through an open descriptor. Raises FolderRefused."""


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


HeadCommit = Callable[[str], str | None]
"""The commit that a folder's HEAD names, read from its files; None when they do not say. Never raises."""


class TriggersFile(Protocol):
    """The file of triggers on this host. `place` names it in rows; no path, which would be personal."""

    @property
    def place(self) -> str: ...

    def current(self) -> Triggers | None:
        """What it holds now, read anew; None when it cannot be used."""

    def mark(self, key: str, mark: Disarmed | None) -> bool:
        """Put the mark into the entry of this identity, or take it out. False: no such entry, or not possible now."""


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


FolderChange = Callable[[Workspace], str | None]
"""What has become of an admitted folder, in words; None: it is where and whose it was.

Raises OSError where nobody can tell.
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


class Bell(Protocol):
    """Wake the workers of a host. A bell may be lost or doubled; the rows in Postgres decide."""

    def ring_start(self, host: str, times: int = 1) -> None:
        """Say that a run may be due. Raises QueueUnavailable."""

    def ring_finish(self, host: str, run_id: int) -> None:
        """Say that this run's box has ended. Raises QueueUnavailable."""

    def pending(self, host: str) -> int:
        """How many bells wait unheard. Raises QueueUnavailable."""


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


class Images(Protocol):
    def facts(self, tag: str) -> ImageFacts | None:
        """None when the engine has no such image. Raises EngineUnavailable."""

    def engine_id(self) -> str:
        """The engine's own id. Raises EngineUnavailable."""


class GitBox(Protocol):
    """Ask git about a folder an agent may have written, in a throw-away container without network."""

    def state(self, folder: LocalFolder, *, image: str) -> FolderState:
        """As its owner's git sees it. Bounded to 10 s.

        Raises EngineUnavailable, ImageMissing, BoxFault, and FolderRefused when it is not the folder that was opened.
        """

    def skills(
        self, folder: LocalFolder, *, commit: str, flows: Sequence[str], image: str
    ) -> Mapping[str, bytes]:
        """The SKILL.md of each flow that has one at `commit`, proven by its hash: the folder cannot lie here."""


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


class Stops(Protocol):
    def stopped(self, host: str) -> Collection[int]:
        """The runs of this host that hold a slot and may make no call. Raises DatabaseUnavailable, DatabaseRefused."""


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
