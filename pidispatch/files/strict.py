"""Hold the value of a file that must be right at each reading: a bad edit is told, never replaced by what was before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pidispatch.domain.files.inforce import not_in_force
from pidispatch.domain.limits.policy import Basis
from pidispatch.files.live import LiveFiles
from pidispatch.ports import KeptFiles

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unusable:
    """The file cannot be used now; nothing may fall back to a wider limit."""

    problems: tuple[str, ...]


class StrictFile(LiveFiles[T]):
    """`parse` gets None for a file that never was; one that is gone is no edit: what it said last holds.

    Events: `<name>_loaded` (not for a file that is not there), `_reloaded`, `_invalid`. Any thread may ask.
    """

    bad_event = "invalid"

    def __init__(
        self, name: str, path: Path, parse: Callable[[bytes | None], T], *, kept: KeptFiles | None = None
    ) -> None:
        super().__init__(name, (path,), lambda *contents: parse(contents[0]), kept=kept)

    def read(self) -> T | Unusable:
        """What the file says now."""
        return self.read_with_basis()[0]

    def read_with_basis(self) -> tuple[T | Unusable, tuple[Basis, ...]]:
        """The same, and which content it is."""
        with self._lock:
            if (self._loaded is None and not self._found.problems) or self._changed():
                self._settle()
            return (self._value() if self._usable else Unusable(self._found.problems)), self._basis()

    @property
    def problem(self) -> str | None:
        self.read()
        return super().problem

    def not_in_force(self) -> Sequence[str]:
        self.read()
        return not_in_force(self.in_force, strict=True)

    @property
    def _usable(self) -> bool:
        return not self._found.problems or self._gone

    def _is_fault(self) -> bool:
        return True

    def _stands_in(self) -> str | None:
        return "the last good edit" if self._usable else None

    def _is_news(self) -> bool:
        """That there is no file at the start is none."""
        return self._seen is not None and self._seen[0].data is not None
