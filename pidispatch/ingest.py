"""Ingest: from a request to a row, then the bell."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pidispatch.domain.identity import folder_mutex, folder_scope, local_run_id
from pidispatch.domain.run import NewRun
from pidispatch.domain.task import cut_task
from pidispatch.domain.triggers import WaitAfter
from pidispatch.errors import FolderRefused, QueueUnavailable
from pidispatch.ports import Bell, FolderState, GitBox, LocalFolder, OpenFolder, Submissions


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """A person asks for one run in a folder. None means: as configured when it starts.

    One with `after` is held until that instant (aware).
    """

    folder: str
    task: bytes
    flow: str | None = None
    provider: str | None = None
    model: str | None = None
    image: str | None = None
    max_turns: int | None = None
    priority: int = 0
    force: bool = False
    after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """`duplicate`: the same was asked within this minute, and that run stands. `rung`: a worker was woken.

    None is woken for a run that is held.
    """

    public_id: str
    duplicate: bool
    rung: bool


class Ingest:
    """The way in. A request that is refused raises FolderRefused and leaves nothing."""

    def __init__(
        self,
        *,
        host: str,
        submissions: Submissions,
        bell: Bell,
        gitbox: GitBox,
        open_folder: OpenFolder,
        default_image: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._host = host
        self._submissions = submissions
        self._bell = bell
        self._gitbox = gitbox
        self._open_folder = open_folder
        self._default_image = default_image
        self._clock = clock

    def submit(self, request: LocalRequest) -> Submitted:
        folder = self._open_folder(request.folder.encode(errors="surrogateescape"))
        public_id = self._public_id(request, folder)
        return self.take_in(
            public_id,
            folder,
            lambda state: self._row(request, folder, state, public_id),
            image=request.image,
            force=request.force,
        )

    def take_in(
        self,
        public_id: str,
        folder: LocalFolder,
        make: Callable[[FolderState], NewRun],
        *,
        image: str | None,
        force: bool,
    ) -> Submitted:
        """Write the run that `make` makes of the folder's state, unless it is there. `force`: changes are no fault."""
        if self._submissions.known(
            public_id
        ):  # its run may be changing the folder already, which is no fault now
            return Submitted(public_id, duplicate=True, rung=False)
        state = self._gitbox.state(
            folder.path, uid=folder.uid, gid=folder.gid, image=image or self._default_image
        )
        _require_repository(folder, state, force=force)
        run = make(state)
        if self._submissions.submit(run) is None:
            return Submitted(run.public_id, duplicate=True, rung=False)
        return Submitted(run.public_id, duplicate=False, rung=not run.wait_for and self._ring())

    def _public_id(self, request: LocalRequest, folder: LocalFolder) -> str:
        return local_run_id(
            folder=folder.path.encode(errors="surrogateescape"),
            flow=request.flow,
            task=request.task,
            asked_at=self._clock(),
            provider=request.provider,
            model=request.model,
            after=request.after,
        )

    def _row(self, request: LocalRequest, folder: LocalFolder, state: FolderState, public_id: str) -> NewRun:
        path = folder.path.encode(errors="surrogateescape")
        event = {"source": "manual", "folder": folder.basename, "sha": state.head}
        return NewRun(
            public_id=public_id,
            folder=path,
            folder_given=request.folder.encode(errors="surrogateescape"),
            task=cut_task(request.task),
            task_bytes=len(request.task),
            event=json.dumps(event, ensure_ascii=True).encode(),
            scope=folder_scope(request.folder),
            mutex=folder_mutex(self._host, folder.device, folder.inode),
            target=f"local:{_printable(folder.basename)}",
            pinned_host=self._host,
            flow=request.flow,
            provider=request.provider,
            model=request.model,
            image=request.image,
            max_turns=request.max_turns,
            priority=request.priority,
            wait_for=() if request.after is None else (WaitAfter(request.after),),
        )

    def _ring(self) -> bool:
        try:
            self._bell.ring_start(self._host)
        except QueueUnavailable:
            return False  # the row is committed: the reconciler rings for it
        return True


def _require_repository(folder: LocalFolder, state: FolderState, *, force: bool) -> None:
    if not state.is_root:
        problem = state.problem or "it is not the root of a git repository"
        raise FolderRefused("not-a-git-root", f"{folder.path!r}: {problem}")
    if state.head is None:
        raise FolderRefused("no-commit", f"{folder.path!r} has no commit yet; commit something first")
    if state.dirty and not force:
        raise FolderRefused(
            "dirty", f"{folder.path!r} has changes that are not committed; commit them, or use --force"
        )


def _printable(name: str) -> str:
    """A folder's name as text that fits a column and a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)[:120]
