"""Mount in a box what was opened, whatever its name leads to by now, and see in the live box that this is there."""

import errno
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import docker.errors
import structlog

from pidispatch.domain import words
from pidispatch.domain.sandbox import WORKSPACE_DIR, Inode, Mount
from pidispatch.errors import BindsUnseen, FolderRefused, MountDiffers, MountUnseen
from pidispatch.runtime.binding import BindPlaces
from pidispatch.runtime.engine import Engine, translated
from pidispatch.runtime.filesystems import PROCESSES

log = structlog.get_logger(__name__)

PLACE = "mounts"
EXEC_LOOKS, EXEC_PAUSE = 500, 0.01

_OPEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = {errno.ENOENT, errno.ESRCH}


class DockerMounts:
    """`ports.Mounts`, for an engine on this machine. Folders are bound to a place in `run_dir` while a box starts.

    The engine looks a mount's source up by its name, and does so when the box starts: whoever may rename a folder's parent
    has all the time until then. So a folder is opened, compared with what was admitted, and bound to a place of ours;
    that place is what the engine is told. A process that may not mount (it is not root) tells the name. Either way the live
    mounts are compared before the box gets its go: of the first kind of defence this is the proof, of the second the whole.
    """

    def __init__(self, engine: Engine, run_dir: Path) -> None:
        self._engine = engine
        self._places = BindPlaces(run_dir / PLACE)
        self._may_bind = os.geteuid() == 0
        self._under: dict[str, Inode] = {}

    @contextmanager
    def hold(self, box: str, mounts: Sequence[Mount]) -> Iterator[Sequence[Mount]]:
        with ExitStack() as stack:
            yield tuple(self._held(stack, box, mount) for mount in mounts)

    def check(self, container_id: str, mounts: Sequence[Mount]) -> None:
        process = self._process(container_id)
        if process is None:
            return
        for mount in mounts:
            found = self._found(container_id, process, mount)
            if found is None:
                return
            if found != mount.identity:
                raise self._difference(mount, found)

    def sweep(self) -> int:
        """Undo the binds that killed processes left; returns how many."""
        return self._places.sweep()

    def _held(self, stack: ExitStack, box: str, mount: Mount) -> Mount:
        if mount.identity is None:
            try:
                return replace(mount, identity=_identity(os.lstat(mount.source)))
            except OSError as error:
                raise MountUnseen(f"cannot look at {mount.source}: {error}") from error
        descriptor = _opened(mount.source, mount.identity)
        try:
            return self._bound(stack, box, mount, descriptor)
        finally:
            os.close(descriptor)

    def _bound(self, stack: ExitStack, box: str, mount: Mount, descriptor: int) -> Mount:
        if not self._may_bind:
            return mount
        try:
            bind = stack.enter_context(self._places.bound(box, descriptor))
        except PermissionError as error:
            self._may_bind = False
            log.info("folders_mounted_by_name", problem=str(error))
            return mount
        except OSError as error:
            raise MountUnseen(f"cannot bind {mount.source}: {error}") from error
        self._under[bind.path] = bind.under
        stack.callback(self._under.pop, bind.path)
        return replace(mount, source=bind.path)

    def _process(self, container_id: str) -> int | None:
        """The box's first process as the kernel of this machine knows it; None when the box has ended."""
        with translated(f"inspect {container_id[:12]}"):
            try:
                state = self._engine.api.inspect_container(container_id)["State"]
            except docker.errors.NotFound:
                return None
        return int(state["Pid"]) if state.get("Running") and state.get("Pid") else None

    def _found(self, container_id: str, process: int, mount: Mount) -> Inode | None:
        """None when the box has ended meanwhile."""
        path = f"{PROCESSES}/{process}/root{mount.target}"
        for left in reversed(range(EXEC_LOOKS)):
            try:
                return _identity(os.lstat(path))
            except PermissionError as error:
                # Between its start and its first program a box is the engine's, and closed to all but root.
                if not left:
                    raise _unseen(path, error) from error
                time.sleep(EXEC_PAUSE)
            except OSError as error:
                if error.errno in _GONE and self._process(container_id) is None:
                    return None
                raise _unseen(path, error) from error
        return None

    def _difference(self, mount: Mount, found: Inode) -> Exception:
        if self._under.get(mount.source) == found:
            self._may_bind = False
            return BindsUnseen(
                "it does not see what this process mounts; from now on folders are told by name"
            )
        if mount.target == WORKSPACE_DIR:
            return FolderRefused(
                words.WORKSPACE_GONE, f"the box has another folder than {mount.source}: {found}"
            )
        return MountDiffers(f"{mount.target} of the box is not {mount.source}, but {found}")


def _unseen(path: str, error: OSError) -> MountUnseen:
    return MountUnseen(
        f"cannot look into the box at {path} ({error}); a worker must see the processes of its Docker engine: same machine, "
        "same PID namespace, and root or the user of its boxes"
    )


def _opened(path: str, identity: Inode) -> int:
    try:
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        raise FolderRefused(words.WORKSPACE_GONE, f"{path!r} was taken away or exchanged: {error}") from error
    if _identity(os.fstat(descriptor)) != identity:
        os.close(descriptor)
        raise FolderRefused(
            words.WORKSPACE_GONE, f"{path!r} is another folder than the one that was looked at"
        )
    return descriptor


def _identity(facts: os.stat_result) -> Inode:
    return facts.st_dev, facts.st_ino
