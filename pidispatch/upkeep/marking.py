"""Keep the one-shots in the database and their marks in the file of triggers the same."""

from dataclasses import dataclass

import structlog

from pidispatch.domain.triggers.oneshot import Spent, is_once, mark_of, marked, unmarked
from pidispatch.errors import CannotRearm, PidispatchError
from pidispatch.ports import TriggersFile
from pidispatch.store.runs.oneshots import OneShots

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Rearmed:
    """`run` had spent it, None when no row said so; `unmarked`: a mark was taken out of the file."""

    run: str | None
    unmarked: bool


class Marking:
    """Every process of a host may run it: what two write at once is the same. The reconciler's loop calls `look`."""

    def __init__(self, one_shots: OneShots, file: TriggersFile) -> None:
        self._one_shots = one_shots
        self._file = file

    def look(self) -> None:
        """One pass. Raises DatabaseUnavailable; a file that cannot be used now is looked at again the next time."""
        self._arm_what_was_unmarked()
        self._mark_what_was_spent()

    def rearm(self, key: str, by: str) -> Rearmed:
        """At an operator's word: the row first, then the mark. After a death between the two, the same word again
        takes the mark out. Raises CannotRearm when its run goes on, or when there is neither.
        """
        run: str | None = None
        refusal: CannotRearm | None = None
        try:
            run = self._one_shots.rearm(key, by)
        except CannotRearm as error:
            if error.live is not None:
                raise
            refusal = error
        found = self._file.current()
        entry = None if found is None else found.by_id(key)
        has_mark = entry is not None and is_once(entry) and entry.disarmed is not None
        if refusal is not None and not has_mark:
            raise refusal
        return Rearmed(run, unmarked=has_mark and self._file.mark(key, None))

    def _arm_what_was_unmarked(self) -> None:
        """The rows before the file: a mark that was noted was in the file before, so what is not there was deleted."""
        noted = self._one_shots.marked_in(self._file.place)
        triggers = self._file.current() if noted else None
        for spent in unmarked(triggers, noted) if triggers is not None else ():
            if self._one_shots.rearm_unmarked(spent, by=f"file@{self._file.place}"):
                log.info("trigger_rearmed", key=spent.key, run=spent.run)

    def _mark_what_was_spent(self) -> None:
        spent = self._one_shots.to_mark()
        triggers = self._file.current() if spent else None
        if triggers is None:
            return
        for each in marked(triggers, spent):
            log.info("trigger_already_disarmed", key=each.key, run=each.run)
            self._one_shots.marked(each, self._file.place)
        for each in unmarked(triggers, spent):
            self._mark(each)

    def _mark(self, spent: Spent) -> None:
        """The file before the row: after a death between the two, the next pass finds the mark and notes it."""
        if not self._file.mark(spent.key, mark_of(spent)):
            return
        log.info("trigger_disarmed", key=spent.key, run=spent.run)
        if not self._one_shots.marked(spent, self._file.place):
            self._file.mark(spent.key, None)  # an operator armed it meanwhile


def mark_logged(marking: Marking) -> None:
    """One pass that stops nothing else: what goes wrong is told, and tried again with the next."""
    try:
        marking.look()
    except PidispatchError as error:
        log.warning("trigger_disarm_unavailable", problem=str(error))
