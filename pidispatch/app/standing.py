"""Hold the triggers in force: the last good edit of the operator's file."""

from collections.abc import Callable
from pathlib import Path

from pidispatch.domain.schedule import pattern_problem
from pidispatch.domain.triggers import Cron, Triggers
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import LiveFile

Parse = Callable[[bytes, str], Triggers]
"""Turn the content of the file of this name into its meaning. Raises ConfigurationRefused."""


def not_read_yet(content: bytes, file: str) -> Triggers:
    del content
    raise ConfigurationRefused([f"{file}: this version does not read triggers yet; unset PI_TRIGGERS_FILE"])


PARSE: Parse = not_read_yet


class StandingTriggers:
    """Without a file nothing starts by itself."""

    def __init__(self, path: Path | None, parse: Parse | None = None) -> None:
        self._file = None if path is None else LiveFile("triggers", path, _judged(parse or PARSE, str(path)))

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


def _judged(parse: Parse, file: str) -> Callable[[bytes], Triggers]:
    def parse_and_judge(content: bytes) -> Triggers:
        triggers = parse(content, file)
        problems = pattern_problems(triggers, file)
        if problems:
            raise ConfigurationRefused(problems)
        return triggers

    return parse_and_judge


def pattern_problems(triggers: Triggers, file: str) -> list[str]:
    """One sentence for each schedule whose pattern no clock will ever meet."""
    return [
        f'{file}:{each.line}: trigger at index {each.index} ("{each.id}"): on.pattern {problem}'
        for each in triggers.entries
        if isinstance(each.on, Cron) and (problem := pattern_problem(each.on.pattern)) is not None
    ]
