"""Stop a run whose folder was removed, replaced or given away while it works."""

import threading

import structlog

from pidispatch.domain import words
from pidispatch.errors import PidispatchError
from pidispatch.ports import FolderChange, Occupants, Workspaces

log = structlog.get_logger(__name__)

PERIOD = 20.0  # seconds between looks: a change is seen, and the box stopped, within a minute


class WorkspaceWatch:
    """Looks in a thread of its own: a file system that does not answer must hold up nothing else.

    A folder that cannot be looked at is told and looked at again: what it may have become is judged when the run ends.
    """

    def __init__(
        self, *, host: str, workspaces: Workspaces, occupants: Occupants, folder_change: FolderChange
    ) -> None:
        self._host = host
        self._workspaces = workspaces
        self._occupants = occupants
        self._folder_change = folder_change

    def run(self, stop: threading.Event) -> None:
        """Look every 20 seconds until `stop` is set."""
        while not stop.wait(PERIOD):
            try:
                self.look()
            except PidispatchError as error:
                log.warning("workspaces_not_looked_at", problem=str(error))
            except Exception:
                log.exception("workspace_watch_broke")

    def look(self) -> None:
        """One look at the folder of each run at work."""
        for workspace in self._workspaces.workspaces(self._host):
            try:
                change = self._folder_change(workspace)
            except OSError as error:
                log.warning("workspace_unreadable", run=workspace.public_id, problem=str(error))
                continue
            if change is not None and self._occupants.request_stop(
                workspace.run_id, reason=words.WORKSPACE_GONE
            ):
                log.warning("workspace_gone", run=workspace.public_id, problem=change)
