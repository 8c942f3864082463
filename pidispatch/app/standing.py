"""Hold the triggers in force: the last good edit of the operator's file."""

from pathlib import Path

from pidispatch.config import Settings
from pidispatch.domain.bounds import bound_problems
from pidispatch.domain.files.triggers import parse_triggers
from pidispatch.domain.triggers import Triggers
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import LiveFile


class StandingTriggers:
    """Without a file nothing starts by itself. `max_cost_micros`: what no entry may let a run spend more than."""

    def __init__(self, path: Path | None, *, max_cost_micros: int | None = None) -> None:
        self._file = None
        if path is not None:
            self._file = LiveFile(
                "triggers", path, lambda content: _parse(content, str(path), max_cost_micros)
            )

    def load(self) -> None:
        """Read the file at the start. Raises ConfigurationRefused."""
        if self._file is not None:
            self._file.load()

    def current(self) -> Triggers:
        return Triggers() if self._file is None else self._file.current()

    @property
    def problem(self) -> str | None:
        """What is wrong with the file now, while an earlier edit is in force."""
        return None if self._file is None else self._file.problem


def standing_triggers(settings: Settings) -> StandingTriggers:
    """The file that the settings name, as a worker judges it."""
    return StandingTriggers(settings.triggers_file, max_cost_micros=settings.max_cost_micros)


def _parse(content: bytes, file: str, max_cost_micros: int | None) -> Triggers:
    triggers = parse_triggers(content, file)
    problems = bound_problems(triggers, file, max_cost_micros=max_cost_micros)
    if problems:
        raise ConfigurationRefused(problems)
    return triggers


def triggers_problems(settings: Settings) -> tuple[str, ...]:
    """What is wrong with the file as it is, one sentence each: a worker that starts now would be refused."""
    try:
        standing_triggers(settings).current()
    except ConfigurationRefused as error:
        return error.problems
    return ()
