"""Describe a locked-down container: what every box has, and what one job's box adds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pidispatch.domain import words

GATE_DIR = "/gate"
GATE_SOCKET = f"{GATE_DIR}/s"
JOB_DIR = "/job"
WORKSPACE_DIR = "/workspace"
OUTBOX_DIR = "/outbox"
SESSION_DIR = "/session"
SESSION_FILE = f"{SESSION_DIR}/current.jsonl"
AGENT_DIR = "/agent"
HOME_DIR = "/home/pi"
FORWARDER_PORT = 4180  # 127.0.0.1 inside the box; models.json points there

LABEL_INSTALLATION = "dev.pidispatch.installation"
LABEL_ROLE = "dev.pidispatch.role"
LABEL_RUN = "dev.pidispatch.run"
LABEL_ATTEMPT = "dev.pidispatch.attempt"
LABEL_BORN = "dev.pidispatch.born"  # seconds since 1970, for containers without a row
ROLE_JOB = "job"
ROLE_GIT = "git"


PIDS_LIMIT = 512
MIB = 1024 * 1024


Inode = tuple[int, int]
"""The device and the inode of a file or directory."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One bind mount. A `Mount` object, not a bind string: a colon in a path would break that.

    `identity` is what must be found there in the live box; None while nobody has looked.
    """

    source: str
    target: str
    read_only: bool
    identity: Inode | None = None


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """Everything about one container that is decided before it exists.

    `memory` is bytes, `cpus` a count, `stop_timeout` seconds between SIGTERM and SIGKILL, `tmpfs` maps a
    path to Docker's mount options. No file that it writes gets longer than `file_bytes`. With `takes_input` it has a
    standard input, which ends with its first attachment.
    """

    name: str
    image: str
    uid: int
    gid: int
    labels: Mapping[str, str]
    mounts: tuple[Mount, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    memory: int = 4 * 1024 * MIB
    cpus: float = 2.0
    working_dir: str = WORKSPACE_DIR
    stop_timeout: int = 10
    file_bytes: int | None = None
    takes_input: bool = False

    @property
    def ulimits(self) -> dict[str, int]:
        """Limits that the kernel keeps on each process: how long a file may get, and no dumps of memory beside it."""
        sizes = {} if self.file_bytes is None else {"fsize": self.file_bytes}
        return {"core": 0, **sizes}

    @property
    def shm_size(self) -> int:
        """Bytes of /dev/shm: a browser needs more than Docker's 64 MiB, but never over half the memory."""
        return min(1024 * MIB, self.memory // 2)

    @property
    def tmpfs(self) -> dict[str, str]:
        """Writable places on a read-only root.

        `exec`, since Docker's default noexec breaks builds. Owned by the job: runc puts the mode of the
        image's own directory in place of ours, and in most images /run is 0755 and root's.
        """
        quarter = self.memory // 4
        own = f"nosuid,nodev,mode=1777,uid={self.uid},gid={self.gid}"
        scratch = f"exec,{own}"
        return {
            "/tmp": f"{scratch},size={quarter}",  # noqa: S108 - a path inside the box
            HOME_DIR: f"{scratch},size={quarter}",
            AGENT_DIR: f"{own},noexec,size={64 * MIB}",
            "/run": f"{own},noexec,size={16 * MIB}",
        }


def box_name(installation: str, run_id: int, attempt: int) -> str:
    """Name one attempt's container; public ids hold `:`, which Docker refuses."""
    return f"pi-job-{installation}-{run_id}-{attempt}"


# What an init prints when it cannot become the entrypoint: Docker's tini, then podman's catatonit.
_INIT_FAILED = re.compile(
    rb"(?:\[FATAL tini \(\d+\)\] exec [^\n]{0,4096} failed|failed to exec pid1): ([^\r\n]{1,80})\s*\Z"
)
_EXEC_ERRORS = {
    b"no such file or directory": words.ENTRYPOINT_MISSING,
    b"permission denied": words.ENTRYPOINT_NOT_EXECUTABLE,
    b"exec format error": words.JOB_IMAGE_WRONG_ARCH,
}


def explain_start_failure(exit_code: int | None, tail: bytes) -> str | None:
    """Say why a box that never asked for its go ended: a record's word, or None when it is not known.

    With an init as PID 1 the engine *starts* a box whose entrypoint is missing; the init then prints one line
    and exits (127, 126, or 1 for a foreign architecture). Ask only when no go was given: an agent could print it.
    """
    said = _INIT_FAILED.search(tail[-8192:])
    if said:
        return _EXEC_ERRORS.get(said.group(1).strip().lower())
    return words.ENTRYPOINT_NOT_EXECUTABLE if exit_code == 126 else None
