"""Say whether a run left its folder other than it found it, asked in a box."""

import structlog

from pidispatch.errors import BoxFault, EngineUnavailable, FolderRefused
from pidispatch.ports import GitBox, OpenFolder
from pidispatch.store.runs.chains import Chains

log = structlog.get_logger(__name__)


class Changes:
    """Looks at the folder of a run that has ended, as its owner, without its repository's programs."""

    def __init__(self, *, chains: Chains, gitbox: GitBox, open_folder: OpenFolder) -> None:
        self._chains = chains
        self._gitbox = gitbox
        self._open_folder = open_folder

    def seen(self, run_id: int, *, patient: bool) -> bool:
        """Whether a change is seen: another commit, or files that are not committed. What cannot be looked at shows none.

        Raises DatabaseUnavailable, and EngineUnavailable if `patient`.
        """
        run = self._chains.parent(run_id)
        if run.folder is None or run.image is None or run.commit is None:
            return False
        try:
            folder = self._open_folder(run.folder)
            state = self._gitbox.state(folder, image=run.image)
        except EngineUnavailable:
            if patient:
                raise
            return False
        except (FolderRefused, BoxFault) as error:
            log.warning("changes_unseen", run=run.public_id, problem=str(error))
            return False
        return state.problem is None and (state.dirty or state.head != run.commit)
