"""Keep what the worker hands to a box, and what the box hands back, on the host."""

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from pidispatch.domain import words
from pidispatch.domain.sandbox import MIB
from pidispatch.errors import BoxFault, ConfigurationRefused, DiskFull
from pidispatch.ports import JobPaths
from pidispatch.runtime.erase import erase
from pidispatch.runtime.sizedfiles import SeenByEngine, mount_sized, unmount_sized
from pidispatch.runtime.usage import bytes_below

log = structlog.get_logger(__name__)

SIZED = "sized"
MOST_NAMES = 16_384  # files and directories of one box's outbox and session
SESSION = "current.jsonl"  # an empty one is a fresh session
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class JobFilesFault(BoxFault):
    """The files of a job could not be laid out on the host."""

    why = words.JOB_FILES_FAILED


@dataclass(frozen=True, slots=True)
class Sizing:
    """How many bytes a box may leave in its outbox and session together, and whether the engine sees a mount made here."""

    size: int = 256 * MIB
    seen: SeenByEngine | None = None


class JobFiles:
    """One directory for each box below `root`, which only the worker's user may enter.

    `<root>/<box name>/job` (0755, files 0444, the worker's), which the box only reads; `outbox` and `session` (0700, the
    job's), the latter with one file, `current.jsonl`. Root mounts a tmpfs at `<box name>/sized` and makes these two in it:
    the kernel bounds them, and they last until `remove`, whoever dies before. After a reboot they are missing, which is
    not the same as empty. Elsewhere they lie beside `job`, and `overfull` tells.
    """

    def __init__(self, root: Path, sizing: Sizing | None = None) -> None:
        self._root = root
        self._sizing = sizing or Sizing()

    def prepare(
        self, name: str, files: Mapping[str, bytes], *, uid: int, gid: int, session: bytes = b""
    ) -> JobPaths:
        """Lay out `files` (relative path → content) for box `name`, in place of what an earlier try left.

        Raises DiskFull, JobFilesFault, and ConfigurationRefused for a root that others may write.
        """
        self.check()
        base = self._root / _plain(name)
        try:
            self.remove(name)
            base.mkdir(0o700)
            job, own_root = base / "job", self._sized(base)
            outbox, kept = own_root / "outbox", own_root / "session"
            _directory(job, 0o755)
            for path, content in sorted(files.items()):
                _write(job, path, content)
            for own in (outbox, kept):
                _directory(own, 0o700)
            _write(kept, SESSION, session, mode=0o600)
            if os.geteuid() == 0:
                for own in (outbox, kept / SESSION, kept):
                    os.chown(own, uid, gid)
        except OSError as error:
            kind = DiskFull if error.errno in _NO_SPACE else JobFilesFault
            raise kind(f"cannot lay out the files of {name}: {error}") from error
        return JobPaths(job=str(job), outbox=str(outbox), session=str(kept))

    def _sized(self, base: Path) -> Path:
        """Where outbox and session go: into a mount of their own, where one can be made and the engine sees it."""
        if self._sizing.seen is None or os.geteuid() != 0:
            return base
        place = base / SIZED
        place.mkdir(0o700)
        try:
            mount_sized(place, size=self._sizing.size, entries=MOST_NAMES)
        except PermissionError as error:  # root of a container
            log.info("box_files_not_sized", problem=str(error))
            place.rmdir()
            return base
        inside = place / "outbox"
        inside.mkdir()
        if not self._sizing.seen(str(inside)):
            unmount_sized(place)
            place.rmdir()
            return base
        inside.rmdir()
        return place

    def outbox(self, name: str) -> str:
        """The outbox of box `name` on the host."""
        return str(self._own(name) / "outbox")

    def session(self, name: str) -> str:
        """The session directory of box `name` on the host."""
        return str(self._own(name) / "session")

    def _own(self, name: str) -> Path:
        base = self._root / _plain(name)
        return base / SIZED if (base / SIZED).is_dir() else base

    def overfull(self, name: str) -> bool:
        """Whether a box left more in its outbox and session than it may, where the kernel keeps no bound.

        What cannot be measured, or has too many names, counts as too much.
        """
        own = self._own(name)
        if own.name == SIZED or not own.is_dir():
            return False
        sizes = [bytes_below(own / part, most_names=MOST_NAMES) for part in ("outbox", "session")]
        return any(size is None for size in sizes) or sum(filter(None, sizes)) > self._sizing.size

    def remove(self, name: str) -> None:
        """Remove a box's files, whatever the job made of its outbox; nothing outside is touched. Idempotent.

        Raises JobFilesFault. Only after the container is gone.
        """
        try:
            unmount_sized(self._root / _plain(name) / SIZED)
            erase(self._root, _plain(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise JobFilesFault(f"cannot remove the files of {name}: {error}") from error

    def leftovers(self) -> Sequence[str]:
        """Names of the boxes that have files here; the caller knows which of them live."""
        try:
            return sorted(entry.name for entry in os.scandir(self._root) if _NAME.fullmatch(entry.name))
        except FileNotFoundError:
            return []

    def check(self) -> None:
        """Make the root (0700) if it is missing. Raises ConfigurationRefused if somebody else could change it."""
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            facts = self._root.lstat()
        except OSError as error:
            raise ConfigurationRefused([f"cannot make the jobs directory: {error}"]) from error
        problems = []
        if not stat.S_ISDIR(facts.st_mode):
            problems.append("is a symbolic link")
        if facts.st_uid != os.geteuid():
            problems.append(f"belongs to user {facts.st_uid}, not to the worker's user {os.geteuid()}")
        if facts.st_mode & 0o022 and stat.S_ISDIR(facts.st_mode):
            problems.append(f"can be written by others (mode {stat.S_IMODE(facts.st_mode):04o}; chmod 0700)")
        if problems:
            raise ConfigurationRefused([f"the jobs directory {self._root} {problem}" for problem in problems])


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"not the name of a box: {name!r}")
    return name


def _part(name: str) -> str:
    if not _PART.fullmatch(name):
        raise ValueError(f"not a name in the path of a file: {name!r}")
    return name


def _directory(path: Path, mode: int) -> None:
    path.mkdir()
    path.chmod(mode)  # whatever the umask says


def _write(job: Path, name: str, content: bytes, *, mode: int = 0o444) -> None:
    *parents, _ = parts = [_part(part) for part in name.split("/")]
    for depth in range(1, len(parents) + 1):
        parent = job.joinpath(*parts[:depth])
        if not parent.exists():
            _directory(parent, 0o755)
    descriptor = os.open(job.joinpath(*parts), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)
