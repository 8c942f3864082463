"""Hold what is seen on a host: a folder that was opened, the files of a box, a box, its image."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pidispatch.domain.box.sandbox import Inode


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


@dataclass(frozen=True, slots=True)
class JobPaths:
    """Host directories of one box: `job` is mounted read-only, `outbox` and `session` are the job's own."""

    job: str
    outbox: str
    session: str


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


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What `image inspect` says: id, the labels, and whether its architecture runs on this engine."""

    image_id: str
    labels: dict[str, str]
    architecture: str
    runs_here: bool


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
