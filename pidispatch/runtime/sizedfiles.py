"""Mount a directory that cannot hold more than it was given: a tmpfs, whose bound the kernel keeps."""

import os
from collections.abc import Callable
from pathlib import Path

import docker.errors
import structlog
from docker.types import Mount as DockerMount

from pidispatch.runtime.engine import Engine, translated
from pidispatch.runtime.mounting import MS_NODEV, MS_NOEXEC, MS_NOSUID, mount, unmount

log = structlog.get_logger(__name__)

_NO_IMAGE = "pidispatch.invalid/no-such-image:0"


def mount_sized(place: Path, *, size: int, entries: int) -> None:
    """Mount at most `size` bytes and `entries` names at `place`, a directory of ours. Raises OSError.

    It outlives whoever mounted it and every container, until it is unmounted or the host ends. What a box writes there
    counts as memory of the box.
    """
    options = f"size={size},nr_inodes={entries},mode=0700"
    mount("pidispatch", os.fspath(place), MS_NOSUID | MS_NODEV | MS_NOEXEC, kind="tmpfs", options=options)


def unmount_sized(place: Path) -> None:
    """Take away what is mounted at `place`; nothing if nothing is. Raises OSError."""
    while place.is_mount():
        unmount(os.fspath(place))


class EngineSight:
    """Whether the engine sees what this process mounts: not where the worker has a mount namespace of its own.

    Asked once, since that does not change while a process lives; what the engine does not say clearly is a no.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: bool | None = None

    def sees(self, path: str) -> bool:
        """`path` lies inside of what was mounted. Raises EngineUnavailable."""
        if self._known is None:
            self._known = self._ask(path)
            if not self._known:
                log.warning(
                    "box_files_not_sized", problem="the Docker engine does not see what this worker mounts"
                )
        return self._known

    def _ask(self, path: str) -> bool:
        """The engine looks for a mount's source before it looks for the image, so that nothing is made."""
        with translated("ask the engine for a mount"):
            api = self._engine.api
            mount = DockerMount(target="/sized", source=path, type="bind", read_only=True)
            try:
                made = api.create_container(
                    _NO_IMAGE, command=["true"], host_config=api.create_host_config(mounts=[mount])
                )
            except docker.errors.ImageNotFound:
                return True
            except docker.errors.APIError as error:
                if error.is_server_error():
                    raise
                return False
            api.remove_container(made["Id"], force=True)
            return True


SeenByEngine = Callable[[str], bool]
