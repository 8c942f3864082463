"""Hold the value of a file that must be right at each reading: a bad edit is told, never replaced by what was before."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from pidispatch.errors import ConfigurationRefused
from pidispatch.files.reading import Content, mark_of, read

T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Unusable:
    """The file cannot be used now; nothing may fall back to a wider limit."""

    problems: tuple[str, ...]


class StrictFile(Generic[T]):
    """`parse` gets None for a missing file. Events: `<name>_loaded`, `_reloaded`, `_invalid`. Any thread may ask."""

    def __init__(self, name: str, path: Path, parse: Callable[[bytes | None], T]) -> None:
        self.path = path
        self._name = name
        self._parse = parse
        self._lock = threading.Lock()
        self._seen: tuple[Content, T | Unusable] | None = None
        self._told: tuple[T | Unusable] | None = None

    def read(self) -> T | Unusable:
        """What the file says now."""
        with self._lock:
            found = self._look()
            self._tell(found)
            return found

    @property
    def problem(self) -> str | None:
        found = self.read()
        return "; ".join(found.problems) if isinstance(found, Unusable) else None

    def _look(self) -> T | Unusable:
        seen = self._seen
        try:
            if seen and seen[0].settled and seen[0].mark == mark_of(self.path):
                return seen[1]
            content = read(self.path)
        except ConfigurationRefused as error:
            self._seen = None
            return Unusable(error.problems)
        found = seen[1] if seen and seen[0].data == content.data else self._parsed(content.data)
        self._seen = (content, found)
        return found

    def _parsed(self, data: bytes | None) -> T | Unusable:
        try:
            return self._parse(data)
        except ConfigurationRefused as error:
            return Unusable(error.problems)

    def _tell(self, found: T | Unusable) -> None:
        """Once for each change; that the first reading is fine is no news, unless it has `notes`."""
        told, self._told = self._told, (found,)
        if told == (found,):
            return
        notes = list(getattr(found, "notes", ()))
        if isinstance(found, Unusable):
            event = f"{self._name}_invalid"
            log.error(event, problems=list(found.problems))
        elif told is not None or notes:
            event = f"{self._name}_loaded" if told is None else f"{self._name}_reloaded"
            log.info(event, file=str(self.path), notes=notes)
