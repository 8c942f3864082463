"""Keep the breakers of triggers up with the runs that ended, and tell once of each that opened."""

import structlog

from pidispatch.domain import words
from pidispatch.ports import BreakerChange, Breakers

log = structlog.get_logger(__name__)


class BreakerKeeper:
    """Counts before anybody decides. Any number of processes may: each ending counts once."""

    def __init__(self, breakers: Breakers) -> None:
        self._breakers = breakers

    def count(self) -> None:
        """Raises DatabaseUnavailable."""
        while (counted := self._breakers.count()).endings:
            for change in counted.changes:
                _tell(change)

    def held_back(self, run_id: int) -> str | None:
        """As `ports.Breakers.held_back`, with what had ended before counted. Raises DatabaseUnavailable."""
        word = self._breakers.held_back(run_id)
        if word != words.BREAKER_COUNTING:
            return word
        self.count()
        return self._breakers.held_back(run_id)


def _tell(change: BreakerChange) -> None:
    if not change.opened:
        log.info("breaker_closed", trigger=change.trigger_id, run=change.run)
        return
    log.warning(
        "breaker_opened",
        trigger=change.trigger_id,
        reason=change.reason,
        failures=change.failures,
        run=change.run,
        probe_at=None if change.probe_at is None else change.probe_at.isoformat(timespec="seconds"),
        way_out="mend what the runs failed for, then `pidispatch triggers close`; a probe that succeeds does it too",
    )
