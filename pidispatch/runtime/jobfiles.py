"""Keep what the worker hands to a box, and what the box hands back, on the host."""

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from pidispatch.errors import BoxFault, ConfigurationRefused, DiskFull
from pidispatch.ports import JobPaths
from pidispatch.runtime.erase import erase

SESSION = "current.jsonl"  # an empty one is a fresh session
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}")
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


class JobFilesFault(BoxFault):
    """The files of a job could not be laid out on the host."""

    why = "job-files-failed"


class JobFiles:
    """One directory for each box below `root`, which only the worker's user may enter.

    `<root>/<box name>/job` (0755, files 0444, the worker's); `…/outbox` and `…/session` (0700, the job's), the latter with
    one file, `current.jsonl`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

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
            job, outbox, kept = base / "job", base / "outbox", base / "session"
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

    def outbox(self, name: str) -> str:
        """The outbox of box `name` on the host."""
        return str(self._root / _plain(name) / "outbox")

    def session(self, name: str) -> str:
        """The session directory of box `name` on the host."""
        return str(self._root / _plain(name) / "session")

    def remove(self, name: str) -> None:
        """Remove a box's files, whatever the job made of its outbox; nothing outside is touched. Idempotent.

        Raises JobFilesFault. Only after the container is gone.
        """
        try:
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
