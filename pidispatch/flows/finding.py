"""Find the box of a run; that it is gone is believed only of the engine that made it, asked after the row was read."""

from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.runs.reconcile import Absence
from pidispatch.domain.runs.run import Occupant
from pidispatch.flows.tenure import Tenure
from pidispatch.ports import BoxWatch


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
