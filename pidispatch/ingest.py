"""Ingest: from a request to a row, then the bell."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from pidispatch.domain import words
from pidispatch.domain.arrival import CLI, Arrival, Arrived, Became, Delivery
from pidispatch.domain.ask import NOTHING_ASKED, Ask
from pidispatch.domain.identity import folder_mutex, folder_scope, local_run_id
from pidispatch.domain.run import NewRun
from pidispatch.domain.subject import RunSubject, folder_subject
from pidispatch.domain.task import cut_task
from pidispatch.domain.triggers import WaitAfter, WhileRunning
from pidispatch.errors import FolderRefused, QueueUnavailable
from pidispatch.ports import Arrivals, Bell, FolderState, GitBox, LocalFolder, OpenFolder


@dataclass(frozen=True, slots=True)
class LocalRequest:
    """A person asks for one run in a folder. One with `after` is held until that instant (aware)."""

    folder: str
    task: bytes
    ask: Ask = NOTHING_ASKED
    force: bool = False
    after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """The run that answers, by its public id. `rung`: a worker was woken; none is for a run that is held.

    `duplicate`: the same was asked within this minute, and that run stands. `coalesced`: somebody else asked for the
    same a moment ago, such as a schedule, and one run does.
    """

    public_id: str
    duplicate: bool
    rung: bool
    coalesced: bool = False


class Ingest:
    """The way in. A request that is refused raises FolderRefused and leaves nothing."""

    def __init__(
        self,
        *,
        host: str,
        arrivals: Arrivals,
        bell: Bell,
        gitbox: GitBox,
        open_folder: OpenFolder,
        default_image: str,
        clock: Callable[[], datetime],
    ) -> None:
        self._host = host
        self._arrivals = arrivals
        self._bell = bell
        self._gitbox = gitbox
        self._open_folder = open_folder
        self._default_image = default_image
        self._clock = clock

    def submit(self, request: LocalRequest) -> Submitted:
        folder = self._open_folder(request.folder.encode(errors="surrogateescape"))
        public_id = self._public_id(request, folder)

        def make(state: FolderState) -> Arrival:
            run = self._row(request, folder, state, public_id)
            # Whoever asks again means it, so that two minutes' requests are two runs.
            return Arrival(Delivery(CLI, public_id), _subject(request, run.scope), run, WhileRunning.PARALLEL)

        return self.take_in(public_id, folder, make, image=request.ask.image, force=request.force)

    def take_in(
        self,
        public_id: str,
        folder: LocalFolder,
        make: Callable[[FolderState], Arrival],
        *,
        image: str | None,
        force: bool,
    ) -> Submitted:
        """Ask for what `make` makes of the folder's state, unless that was done. `force`: changes are no fault."""
        known = self._arrivals.answered(CLI, public_id)
        if known is not None:  # its run may be changing the folder already, which is no fault now
            return self._submitted(known, public_id)
        state = self._gitbox.state(folder, image=image or self._default_image)
        _require_repository(folder, state, force=force)
        arrival = make(state)
        return self._submitted(self._arrivals.arrive(arrival), public_id, ring=not arrival.run.wait_for)

    def _submitted(self, arrived: Arrived, public_id: str, *, ring: bool = False) -> Submitted:
        return Submitted(
            arrived.run or public_id,
            duplicate=arrived.kind is Became.DUPLICATE,
            rung=arrived.kind is not Became.DUPLICATE and ring and self._ring(),
            coalesced=arrived.kind is Became.COALESCED,
        )

    def _public_id(self, request: LocalRequest, folder: LocalFolder) -> str:
        return local_run_id(
            folder=folder.path.encode(errors="surrogateescape"),
            flow=request.ask.flow,
            task=request.task,
            asked_at=self._clock(),
            provider=request.ask.provider,
            model=request.ask.model,
            after=request.after,
            bounds=replace(request.ask, provider=None, model=None).of_its_own(),
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
            ask=request.ask,
            wait_for=() if request.after is None else (WaitAfter(request.after),),
        )

    def _ring(self) -> bool:
        try:
            self._bell.ring_start(self._host)
        except QueueUnavailable:
            return False  # the row is committed: the reconciler rings for it
        return True


def _subject(request: LocalRequest, scope: str) -> RunSubject:
    asked = request.ask.of_its_own()
    if request.after is not None:
        asked += (("after", request.after),)
    return folder_subject(scope, request.ask.lane, request.task, asked)


def _require_repository(folder: LocalFolder, state: FolderState, *, force: bool) -> None:
    if not state.is_root:
        problem = state.problem or "it is not the root of a git repository"
        raise FolderRefused(words.NOT_A_GIT_ROOT, f"{folder.path!r}: {problem}")
    if state.head is None:
        raise FolderRefused(words.NO_COMMIT, f"{folder.path!r} has no commit yet; commit something first")
    if state.dirty and not force:
        named = f" ({', '.join(state.changed)})" if state.changed else ""
        raise FolderRefused(
            words.DIRTY,
            f"{folder.path!r} has changes that are not committed{named}; commit them, or use --force",
        )


def _printable(name: str) -> str:
    """A folder's name as text that fits a column and a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)[:120]
