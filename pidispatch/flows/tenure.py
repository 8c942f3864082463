"""Know whether this machine alone stands for its host's name, which boxes and which departures it can vouch for."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.health.hostidentity import Contender, Identity, shares_an_engine
from pidispatch.domain.runs.reconcile import Absence, Departure
from pidispatch.domain.runs.run import Occupant
from pidispatch.errors import BoxFault, EngineUnavailable
from pidispatch.ports import BoxWatch
from pidispatch.store.hosts.hosts import Hosts


class Hands:
    """`worker` is this process's row. A claim is dropped when its answer got lost, or when giving up could not be written:
    the process lives, so its heartbeat says nothing. `departure` tells of other workers of this host.
    """

    def __init__(self, worker: str, departure: Callable[[str], Departure]) -> None:
        self._worker = worker
        self._departure = departure
        self._lock = threading.Lock()
        self._held: set[int] = set()

    @contextmanager
    def holding(self, run_id: int) -> Iterator[None]:
        with self._lock:
            self._held.add(run_id)
        try:
            yield
        finally:
            with self._lock:
                self._held.discard(run_id)

    def dropped(self, run_id: int, worker: str | None) -> bool:
        """Whether the run was admitted by this process, and no thread of it is at work on it."""
        with self._lock:
            return worker == self._worker and run_id not in self._held

    def departure(self, worker: str | None) -> Departure:
        """Whether the worker was a process of this host that has ended, and whether it had been told to."""
        return Departure.UNKNOWN if worker is None or worker == self._worker else self._departure(worker)


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


class BoxFinder:
    def __init__(self, watch: BoxWatch, tenure: Tenure) -> None:
        self._watch = watch
        self._tenure = tenure

    def find(self, run: Occupant) -> BoxState | Absence:
        """Ask by the container's id, after `run` was read: no list that began before its row can hide its box.

        Raises EngineUnavailable, DatabaseUnavailable.
        """
        if not self._tenure.vouches_for(run):
            return Absence.UNKNOWN
        if run.container_id is None:
            return Absence.GONE
        return self._watch.inspect(run.container_id) or self._asked_again(run, run.container_id)

    def _asked_again(self, run: Occupant, container_id: str) -> BoxState | Absence:
        """The same engine before and after: one may take another's place at the same address at any moment."""
        maker = run.engine_id
        if maker is None or self._watch.engine_id() != maker:
            return Absence.UNKNOWN
        found = self._watch.inspect(container_id)
        if found is not None:
            return found
        return Absence.GONE if self._watch.engine_id() == maker else Absence.UNKNOWN
