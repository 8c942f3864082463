"""Hold the value of files that an operator edits while we run, and keep the last good one over a bad edit."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import structlog

from pidispatch.domain.files.inforce import (
    GONE,
    Contents,
    FileLook,
    InForce,
    KeptContent,
    not_in_force,
)
from pidispatch.domain.files.summary import counts_of
from pidispatch.domain.limits.policy import Basis
from pidispatch.errors import ConfigurationRefused, DatabaseUnavailable
from pidispatch.files.reading import Content, Mark, mark_of, place_of, read
from pidispatch.ports import KeptFiles

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

log = structlog.get_logger(__name__)

SECRET = "a content that holds a secret is not kept, so nothing stands in for it"  # noqa: S105


class Parse(Protocol[T_co]):
    """Turn what the files hold, None for one that is not there, into a value, or raise ConfigurationRefused."""

    def __call__(self, *contents: bytes | None) -> T_co: ...


class Remembered:
    """`ports.KeptFiles` of one process alone, until it ends."""

    tells = True

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], InForce] = {}

    def agree(self, name: str, place: str, look: Callable[[KeptContent | None], FileLook]) -> InForce:
        key = (name, place)
        before = self._found.get(key, InForce())
        self._found[key] = before.after(look(before.kept), datetime.now(UTC))
        return self._found[key]


class LiveFiles(Generic[T]):
    """One value out of one or more files that are judged together, so the order of saving them does not matter.

    `kept` is where the last good content is, for all processes and after a restart. A file that was there and is gone is
    no edit: its last content holds, or `removed` where there is such a value. `name` begins the events of the log:
    `<name>_loaded`, `<name>_reloaded`, `<name>_reload_invalid`. What the value has as `notes` is logged with it, and how
    much of what it holds. Any thread may ask.
    """

    bad_event = "reload_invalid"
    good_event = "reloaded"

    def __init__(
        self,
        name: str,
        paths: Sequence[Path],
        parse: Parse[T],
        *,
        kept: KeptFiles | None = None,
        removed: T | None = None,
    ) -> None:
        self._name = name
        self._paths = tuple(paths)
        self._place = place_of(self._paths)
        self._parse = parse
        self._removed = removed
        self._kept = kept or Remembered()
        self._lock = threading.Lock()
        self._loaded: tuple[T] | None = None
        self._found = InForce()
        self._seen: tuple[Content, ...] | None = None
        self._unreadable: tuple[str, ...] = ()
        self._fresh: tuple[T] | None = None
        self._gone = False
        self._unsettled = False  # the database did not answer, so nobody else knows of this content

    def load(self) -> T:
        """Read now. Raises ConfigurationRefused where the files are bad and nothing is kept that could be used."""
        with self._lock:
            self._settle()
            return self._value()

    def current(self) -> T:
        """The value of the last good edit. Raises as `load` until there is one."""
        return self.with_basis()[0]

    def with_basis(self) -> tuple[T, tuple[Basis, ...]]:
        """The same, and which content it is of, for those who must know whether it is still the newest."""
        with self._lock:
            if self._loaded is None or self._changed():
                self._settle()
            return self._value(), self._basis()

    @property
    def problem(self) -> str | None:
        """What is wrong with the files now, while `current` is still of an earlier edit; None when nothing is."""
        return "; ".join(self.in_force.problems) or None

    @property
    def in_force(self) -> InForce:
        with self._lock:
            return self._found

    def not_in_force(self) -> Sequence[str]:
        """A sentence for each problem of the files as they are: since when, and what holds."""
        try:
            self.current()
        except ConfigurationRefused as error:
            return self._sentences() or error.problems
        return self._sentences()

    def _sentences(self) -> Sequence[str]:
        return not_in_force(self.in_force)

    def _basis(self) -> tuple[Basis, ...]:
        return self._basis_of(self._found)

    def _basis_of(self, found: InForce) -> tuple[Basis, ...]:
        return () if found.kept is None else (Basis(self._name, self._place, found.kept.digest),)

    def _value(self) -> T:
        if self._loaded is None:
            raise ConfigurationRefused(self._found.problems)
        return self._loaded[0]

    def _changed(self) -> bool:
        """Whether the files differ from what was judged last: where nothing moved, a system call for each."""
        if self._unsettled:
            return True
        try:
            if self._seen is not None and _unchanged(self._seen, [mark_of(path) for path in self._paths]):
                return False
            contents = tuple(read(path) for path in self._paths)
        except ConfigurationRefused as error:
            return error.problems != self._unreadable
        if self._seen is None or _data(contents) != _data(self._seen):
            return True
        self._seen = contents
        return False

    def _settle(self) -> None:
        before, first = self._found, self._loaded is None
        self._found, self._unsettled = self._agree(before)
        loaded, self._loaded = self._loaded, None  # if nothing can be said of what holds, nothing does
        value = self._in_force(before, loaded)
        changed = loaded != value or bool(before.problems)
        self._loaded = value
        self._tell(first=first, before=before, changed=changed)

    def _agree(self, before: InForce) -> tuple[InForce, bool]:
        """What is in force for all; without the database, what is in force here until it answers."""
        try:
            return self._kept.agree(self._name, self._place, self._look), False
        except DatabaseUnavailable as error:
            if before.kept is None:
                raise
            if not self._unsettled:
                self._log("warning", "not_kept", problem=str(error))
            return before.after(self._look(before.kept), datetime.now(UTC)), True

    def _look(self, kept: KeptContent | None) -> FileLook:
        self._fresh, self._gone, self._seen, self._unreadable = None, False, None, ()
        try:
            self._seen = tuple(read(path) for path in self._paths)
        except ConfigurationRefused as error:
            self._unreadable = error.problems
            return FileLook(None, error.problems)
        data = _data(self._seen)
        gone = self._missing_of(data, kept)
        if gone and self._removed is None:
            self._gone = True
            return FileLook(None, tuple(f"{path}: {GONE}" for path in gone))
        try:
            self._fresh = (self._parsed(data, kept),)
        except ConfigurationRefused as error:
            return FileLook(None, error.problems)
        return FileLook(data)

    def _missing_of(self, data: Contents, kept: KeptContent | None) -> list[Path]:
        """The files that were there when they were good, and are gone; nothing else is said of such."""
        if kept is None:
            return []
        before = kept.contents or (b"",) * len(data)
        return [
            path
            for path, now, then in zip(self._paths, data, before, strict=True)
            if now is None and then is not None
        ]

    def _parsed(self, data: Contents, kept: KeptContent | None) -> T:
        if self._removed is not None and kept is not None and None in data:
            return self._removed
        return self._parse(*data)

    def _in_force(self, before: InForce, loaded: tuple[T] | None) -> tuple[T] | None:
        if self._fresh is not None:
            return self._fresh
        kept = self._found.kept
        if kept is None:
            return None
        if loaded is not None and before.kept is not None and before.kept.digest == kept.digest:
            return loaded
        if kept.contents is None:
            raise ConfigurationRefused([*self._found.problems, SECRET])
        return (self._parsed(kept.contents, kept),)

    def _tell(self, *, first: bool, before: InForce, changed: bool) -> None:
        """Once for each fault and each change of what is in force."""
        now = self._found
        if now.kept is not None and now.kept.contents is None and self._basis_of(before) != self._basis():
            self._log("warning", "not_kept", problem=f"{SECRET}, if it is bad at a restart")
        if now.problems and now.problems != before.problems and self._is_fault():
            since = None if now.kept is None else now.kept.since.isoformat()
            self._log(
                "error", self.bad_event, problems=list(now.problems), kept=self._stands_in(), content_of=since
            )
        if self._loaded is not None and (first or (changed and not now.problems)) and self._is_news():
            value = self._loaded[0]
            files, notes = [str(path) for path in self._paths], list(getattr(value, "notes", ()))
            event = "loaded" if first else self.good_event
            self._log("info", event, files=files, notes=notes, **counts_of(value))

    def _log(self, level: str, event: str, **told: object) -> None:
        if self._kept.tells:
            getattr(log, level)(f"{self._name}_{event}", **told)

    def _is_fault(self) -> bool:
        """Where nothing stands in, the error is raised instead."""
        return self._found.kept is not None

    def _stands_in(self) -> str | None:
        return None if self._found.kept is None else "the last good edit"

    def _is_news(self) -> bool:
        return True


class LiveFile(LiveFiles[T]):
    """The value of one file. `missing` stands for a file that is not there; without it, that is a fault.

    `removed` is in force once a file is gone that was there: `missing`, where nothing else is said.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        parse: Callable[[bytes], T],
        *,
        missing: T | None = None,
        removed: T | None = None,
        kept: KeptFiles | None = None,
    ) -> None:
        def parse_one(*contents: bytes | None) -> T:
            (content,) = contents
            if content is not None:
                return parse(content)
            if missing is not None:
                return missing
            raise ConfigurationRefused([f"{path}: does not exist"])

        super().__init__(name, (path,), parse_one, kept=kept, removed=missing if removed is None else removed)


def _data(contents: Sequence[Content]) -> Contents:
    return tuple(each.data for each in contents)


def _unchanged(seen: Sequence[Content], marks: Sequence[Mark]) -> bool:
    return all(each.settled and each.mark == mark for each, mark in zip(seen, marks, strict=True))
