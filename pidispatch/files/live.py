"""Hold the value of files that an operator edits while we run, and keep the last good one over a bad edit."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import structlog

from pidispatch.errors import ConfigurationRefused
from pidispatch.files.reading import Content, Mark, mark_of, read

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

log = structlog.get_logger(__name__)


class Parse(Protocol[T_co]):
    """Turn what the files hold, None for one that is not there, into a value, or raise ConfigurationRefused."""

    def __call__(self, *contents: bytes | None) -> T_co: ...


class LiveFiles(Generic[T]):
    """One value out of one or more files that are judged together, so the order of saving them does not matter.

    `name` begins the events of the log: `<name>_loaded`, `<name>_reloaded`, `<name>_reload_invalid`. What the value has
    as `notes` is logged with it. Any thread may ask.
    """

    def __init__(self, name: str, paths: Sequence[Path], parse: Parse[T]) -> None:
        self._name = name
        self._paths = tuple(paths)
        self._parse = parse
        self._lock = threading.Lock()
        self._loaded: tuple[T] | None = None
        self._seen: tuple[Content, ...] | None = None
        self._problems: tuple[str, ...] = ()

    def load(self) -> T:
        """Read now. Raises ConfigurationRefused: at the start nothing is kept that could be used instead."""
        with self._lock:
            contents = tuple(read(path) for path in self._paths)
            value = self._parse(*(each.data for each in contents))
            self._loaded, self._seen, self._problems = (value,), contents, ()
        self._tell("loaded", value)
        return value

    def current(self) -> T:
        """The value of the last good edit. The first call is a `load`."""
        with self._lock:
            loaded = self._loaded
            if loaded is not None:
                self._refresh()
                loaded = self._loaded
        return loaded[0] if loaded is not None else self.load()

    @property
    def problem(self) -> str | None:
        """What is wrong with the files now, while `current` is still of an earlier edit; None when nothing is."""
        with self._lock:
            return "; ".join(self._problems) or None

    @property
    def paths(self) -> tuple[Path, ...]:
        return self._paths

    def _refresh(self) -> None:
        try:
            if self._seen is not None and _unchanged(self._seen, [mark_of(path) for path in self._paths]):
                return
            contents = tuple(read(path) for path in self._paths)
        except ConfigurationRefused as error:
            self._seen = None
            self._keep(error.problems)
            return
        same = self._seen is not None and [c.data for c in self._seen] == [c.data for c in contents]
        self._seen = contents
        if same:
            return
        try:
            value = self._parse(*(each.data for each in contents))
        except ConfigurationRefused as error:
            self._keep(error.problems)
        else:
            changed = self._problems or self._loaded != (value,)
            self._loaded, self._problems = (value,), ()
            if changed:
                self._tell("reloaded", value)

    def _tell(self, event: str, value: T) -> None:
        named = f"{self._name}_{event}"
        log.info(named, files=[str(path) for path in self._paths], notes=list(getattr(value, "notes", ())))

    def _keep(self, problems: tuple[str, ...]) -> None:
        """Keep what is in force, and say so once for each fault."""
        if problems != self._problems:
            event = f"{self._name}_reload_invalid"
            log.error(event, problems=list(problems), kept="the last good edit")
        self._problems = problems


class LiveFile(LiveFiles[T]):
    """The value of one file. `missing` stands for a file that is not there; without it, that is a fault."""

    def __init__(
        self, name: str, path: Path, parse: Callable[[bytes], T], *, missing: T | None = None
    ) -> None:
        def parse_one(*contents: bytes | None) -> T:
            (content,) = contents
            if content is not None:
                return parse(content)
            if missing is not None:
                return missing
            raise ConfigurationRefused([f"{path}: does not exist"])

        super().__init__(name, (path,), parse_one)


def _unchanged(seen: Sequence[Content], marks: Sequence[Mark]) -> bool:
    return all(each.settled and each.mark == mark for each, mark in zip(seen, marks, strict=True))
