"""Describe a locked-down container: what every box has, and what one job's box adds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

GATE_DIR = "/gate"
GATE_SOCKET = f"{GATE_DIR}/s"
JOB_DIR = "/job"
WORKSPACE_DIR = "/workspace"
OUTBOX_DIR = "/outbox"
AGENT_DIR = "/agent"
HOME_DIR = "/home/pi"
FORWARDER_PORT = 4180  # 127.0.0.1 inside the box; models.json points there

LABEL_INSTALLATION = "dev.pidispatch.installation"
LABEL_ROLE = "dev.pidispatch.role"
LABEL_RUN = "dev.pidispatch.run"
LABEL_ATTEMPT = "dev.pidispatch.attempt"

PIDS_LIMIT = 512
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Mount:
    """One bind mount. A `Mount` object, not a bind string: a colon in a path would break that."""

    source: str
    target: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class BoxSpec:
    """Everything about one container that is decided before it exists.

    `memory` is bytes, `cpus` a count, `tmpfs` maps a path to Docker's mount options.
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

    @property
    def shm_size(self) -> int:
        """Bytes of /dev/shm: a browser needs more than Docker's 64 MiB, but never over half the memory."""
        return min(1024 * MIB, self.memory // 2)

    @property
    def tmpfs(self) -> dict[str, str]:
        """Writable places on a read-only root.

        `exec`, since Docker's default noexec breaks builds; the mode, since the job is not root.
        """
        quarter = self.memory // 4
        scratch = "exec,nosuid,nodev,mode=1777"
        return {
            "/tmp": f"{scratch},size={quarter}",  # noqa: S108 - a path inside the box
            HOME_DIR: f"{scratch},size={quarter}",
            AGENT_DIR: f"nosuid,nodev,mode=1777,size={64 * MIB}",
            "/run": f"nosuid,nodev,noexec,mode=1777,size={16 * MIB}",
        }


def box_name(installation: str, run_id: int, attempt: int) -> str:
    """Name one attempt's container; public ids hold `:`, which Docker refuses."""
    return f"pi-job-{installation}-{run_id}-{attempt}"
