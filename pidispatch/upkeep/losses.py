"""Count a worker that a waiting run took with it, before another one looks at the same run."""

import structlog

from pidispatch.domain.runs.outcome import NotNow
from pidispatch.ports import Notes
from pidispatch.store.runs.losses import Losses

log = structlog.get_logger(__name__)


class LostLookers:
    """Called when a worker starts, before it hears a bell, and at each look of the reconciler."""

    def __init__(self, notes: Notes, losses: Losses) -> None:
        self._notes, self._losses = notes, losses
        self._counted: set[tuple[int, int]] = set()

    def count(self) -> None:
        """Count what was not counted yet; the epoch keeps several processes from doing it twice. Raises DatabaseUnavailable."""
        lost = set(self._notes.lookers_lost())
        self._counted &= lost
        for run_id, epoch in sorted(lost - self._counted):
            verdict = self._losses.lost_over(run_id, epoch)
            if isinstance(verdict, NotNow):
                continue  # whoever holds its row keeps it from being looked at, too
            self._counted.add((run_id, epoch))
            if verdict is not None:
                log.warning("worker_lost_over_a_look", run=run_id, verdict=str(verdict))
