"""Know whether this worker's machine alone stands for its host's name, and which runs it may judge if not."""

import time
from collections.abc import Callable

import structlog

from pidispatch.domain.health.hostidentity import Contender, Identity, shares_an_engine
from pidispatch.domain.runs.run import Occupant
from pidispatch.errors import BoxFault, EngineUnavailable
from pidispatch.store.hosts.hosts import Hosts

log = structlog.get_logger(__name__)

FRESH = 15.0  # seconds: what was heard of others at the last beat counts so long
TELL_AGAIN = 60.0


class Tenure:
    """A second machine under a live name is refused at its start. Two can still meet: one fell silent, and came back.

    Then the later one admits nothing, and each judges only the boxes that it surely made.
    """

    def __init__(
        self,
        hosts: Hosts,
        *,
        worker: str,
        identity: Identity,
        engine_id: Callable[[], str],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hosts = hosts
        self._worker = worker
        self._mine = identity
        self._engine_id = engine_id
        self._now = now
        self._others: tuple[Contender, ...] = ()
        self._heard_at = now()
        self._told_at: float | None = None

    def beat(self) -> None:
        """Say that this worker lives, and hear who else does under the name. Raises DatabaseUnavailable."""
        self._others = tuple(self._hosts.beat(self._worker, self._mine))
        self._heard_at = self._now()
        self._tell()

    def know_engine(self) -> None:
        """The engine may have answered since, or been replaced; what it is called is asked once while it lives."""
        try:
            engine_id = self._engine_id()
        except (EngineUnavailable, BoxFault):
            return
        if engine_id != self._mine.engine_id:
            self._mine = Identity(engine_id, self._mine.place)
            self.beat()

    def may_admit(self) -> bool:
        """Raises DatabaseUnavailable."""
        self._refresh()
        return not any(other.earlier for other in self._others)

    def vouches_for(self, run: Occupant) -> bool:
        """Whether what this machine's engine says of the run's box may be of that box. Raises DatabaseUnavailable."""
        self._refresh()
        return run.place == self._mine.place or not shares_an_engine(self._mine, self._others)

    def _refresh(self) -> None:
        if self._now() - self._heard_at > FRESH:
            self.beat()

    def _tell(self) -> None:
        due = self._told_at is None or self._now() - self._told_at >= TELL_AGAIN
        if self._others and due:
            self._told_at = self._now()
            log.error("host_name_taken", others=[f"{each.worker} ({each.identity})" for each in self._others])
