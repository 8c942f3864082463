"""Hold the triggers in force: the last good edit of the operator's file."""

from collections.abc import Sequence
from pathlib import Path

from pidispatch.config import Settings
from pidispatch.domain.files.inforce import FileName
from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.trigger import Triggers, bound_problems
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import LiveFile
from pidispatch.ports import KeptFiles


class StandingTriggers:
    """Without a file nothing starts by itself. `max_cost_micros`: what no entry may let a run spend more than.

    `kept` is where the last good edit is for all processes; without it, in this one alone.
    """

    def __init__(
        self, path: Path | None, *, max_cost_micros: int | None = None, kept: KeptFiles | None = None
    ) -> None:
        self._file = None
        if path is not None:
            self._file = LiveFile(
                FileName.TRIGGERS,
                path,
                lambda content: _parse(content, str(path), max_cost_micros),
                kept=kept,
            )

    def load(self) -> None:
        """Read the file at the start. Raises ConfigurationRefused."""
        if self._file is not None:
            self._file.load()

    def current(self) -> Triggers:
        return Triggers() if self._file is None else self._file.current()

    def look(self) -> None:
        """See what has changed, so that a bad edit is told at once."""
        self.current()

    @property
    def problem(self) -> str | None:
        """What is wrong with the file now, while an earlier edit is in force."""
        return None if self._file is None else self._file.problem

    def problems(self) -> Sequence[str]:
        """What is wrong with the file now, since when and what holds, one sentence each."""
        return () if self._file is None else self._file.not_in_force()


def standing_triggers(settings: Settings, kept: KeptFiles | None = None) -> StandingTriggers:
    """The file that the settings name, as a worker judges it."""
    return StandingTriggers(settings.triggers_file, max_cost_micros=settings.max_cost_micros, kept=kept)


def _parse(content: bytes, file: str, max_cost_micros: int | None) -> Triggers:
    triggers = parse_triggers(content, file)
    problems = bound_problems(triggers, file, max_cost_micros=max_cost_micros)
    if problems:
        raise ConfigurationRefused(problems)
    return triggers
