"""Make the run of one instant of a schedule, or of a schedule that is started by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pidispatch.domain import words
from pidispatch.domain.arrival import CLI, CRON, Arrival, Delivery
from pidispatch.domain.ask import Ask
from pidispatch.domain.bounds import path_bytes
from pidispatch.domain.catchup import Slot, SlotState
from pidispatch.domain.identity import folder_mutex, folder_scope, scheduled_run_id, trigger_name
from pidispatch.domain.run import NewRun
from pidispatch.domain.standing import Entry
from pidispatch.domain.subject import folder_subject
from pidispatch.domain.task import cut_task
from pidispatch.domain.triggers import Cron, Trigger, WhileRunning, Work
from pidispatch.errors import FolderRefused
from pidispatch.ports import LocalFolder, OpenFolder, Unrunnable

MOST_TURNS = 2**31 - 1  # what the column holds
# What bounds a run or its spending and is not enforced yet: such an entry starts nothing, rather than without its bound.
BOUNDS_NOT_ENFORCED_YET = {
    "secrets": "secrets",
    "github": "github",
    "portfolio": "portfolio",
}


class ScheduledRuns:
    """Implements `ports.MakeRun`, for folders of this host."""

    def __init__(self, *, host: str, open_folder: OpenFolder) -> None:
        self._host = host
        self._open_folder = open_folder

    def serves(self, trigger: Trigger) -> bool:
        """Whether this host has the folder of the entry, and may use it."""
        return isinstance(self._folder(trigger.work), LocalFolder)

    def __call__(self, entry: Entry, slot: Slot, previous: datetime | None) -> Arrival | Unrunnable:
        waits = slot.state is SlotState.DEFERRED
        return self._arrival(
            entry,
            Delivery(CRON, scheduled_run_id(entry.id, slot.planned_at)),
            _beside(entry.trigger.while_running),
            lambda basename: _event(entry, basename, scheduled_for=slot.planned_at, previous=previous),
            cause=slot.reason if waits else None,
            not_before=slot.not_before,
        )

    def by_hand(self, entry: Entry, public_id: str, head: str | None) -> Arrival | Unrunnable:
        """The run of no instant, at once; whoever asks again means it. `head` is the folder's commit."""
        delivery = Delivery(CLI, public_id)
        return self._arrival(
            entry, delivery, WhileRunning.PARALLEL, lambda basename: _event(entry, basename, sha=head)
        )

    def _arrival(
        self,
        entry: Entry,
        delivery: Delivery,
        beside: WhileRunning,
        event: Callable[[str], dict[str, Any]],
        *,
        cause: str | None = None,
        not_before: datetime | None = None,
    ) -> Arrival | Unrunnable:
        trigger, work, ask = entry.trigger, entry.trigger.work, entry.trigger.work.ask
        if beyond(work):
            return Unrunnable(words.NOT_ENFORCED_YET)
        if not all(_storable(word) for word in (ask.flow, ask.command, ask.provider, ask.model, ask.image)):
            return Unrunnable(words.NO_TEXT)
        folder = self._folder(work)
        if isinstance(folder, Unrunnable):
            return folder
        task = work.prompt.encode(errors="replace")
        run = NewRun(
            public_id=delivery.delivery_id,
            folder=folder.path.encode(errors="surrogateescape"),
            folder_given=path_bytes(work.folder or ""),
            task=cut_task(task),
            task_bytes=len(task),
            event=json.dumps(event(folder.basename), ensure_ascii=True).encode(),
            scope=folder_scope(work.folder or ""),
            mutex=folder_mutex(self._host, folder.device, folder.inode),
            target=f"local:{_printable(folder.basename)}",
            pinned_host=self._host,
            trigger_type="cron",
            trigger_id=trigger_name(entry.id),
            trigger_index=trigger.index,
            ask=_fitting(ask),
            cause=cause,
            not_before=not_before,
        )
        subject = folder_subject(run.scope, ask.lane, task)
        return Arrival(delivery, subject, run, beside)

    def _folder(self, work: Work) -> LocalFolder | Unrunnable:
        try:
            return self._open_folder(path_bytes(work.folder or ""))
        except FolderRefused as error:
            return Unrunnable(error.reason)


def _beside(policy: WhileRunning) -> WhileRunning:
    """In a folder, runs take turns by its lock: each instant that queues keeps a run of its own."""
    return WhileRunning.PARALLEL if policy is WhileRunning.QUEUE else policy


def beyond(work: Work) -> tuple[str, ...]:
    """The bounds that the entry asks for and this version does not enforce, as the file calls them."""
    asked = tuple(key for name, key in BOUNDS_NOT_ENFORCED_YET.items() if getattr(work, name))
    return (*asked, "backend") if work.backend not in {None, "local"} else asked


def _event(
    entry: Entry,
    basename: str,
    *,
    sha: str | None = None,
    scheduled_for: datetime | None = None,
    previous: datetime | None = None,
) -> dict[str, Any]:
    """What /job/event.json holds. Of an instant no commit is known: git is asked in a box, and planning waits for nothing."""
    pattern = entry.trigger.on.pattern if isinstance(entry.trigger.on, Cron) else entry.timetable.pattern
    return {
        "source": "cron",
        "trigger": {"id": entry.id, "pattern": pattern},
        "folder": basename,
        "sha": sha,
        "scheduledFor": None if scheduled_for is None else _iso(scheduled_for),
        "previousRunAt": None if previous is None else _iso(previous),
    }


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _storable(word: str | None) -> bool:
    """One entry that no column takes would hold up all that are planned with it."""
    return word is None or not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in word)


def _fitting(ask: Ask) -> Ask:
    """With numbers that their columns hold, for the same reason."""
    turns = None if ask.max_turns is None else min(ask.max_turns, MOST_TURNS)
    return replace(ask, max_turns=turns, priority=max(-100, min(ask.priority, 100)))


def _printable(name: str) -> str:
    """A name as text that fits a column and a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)[:120]
