"""The marks of used-up one-shots in the file of triggers."""

import hashlib
from pathlib import Path

import structlog

from pidispatch.domain.files.triggers.file import parse_triggers
from pidispatch.domain.files.triggers.marking import with_disarmed, without_disarmed
from pidispatch.domain.oneshot import is_once
from pidispatch.domain.triggers import Disarmed, Trigger, Triggers
from pidispatch.errors import ConfigurationRefused, FileInUse
from pidispatch.files.editing import edit
from pidispatch.files.reading import read

log = structlog.get_logger(__name__)


class MarkedFile:
    """Implements `ports.TriggersFile`. What it edits it reads anew under the lock, so an entry that moved is found."""

    def __init__(self, path: Path, *, host: str) -> None:
        self._path = path
        self._host = host
        self._seen: tuple[bytes, Triggers] | None = None

    @property
    def place(self) -> str:
        where = str(self._path.absolute()).encode("utf-8", "surrogateescape")
        return f"{self._host}:{hashlib.sha256(where).hexdigest()[:16]}"

    def current(self) -> Triggers | None:
        try:
            data = read(self._path).data
            if data is None:
                return None
            seen = self._seen  # one name: another thread may replace it
            if seen is None or seen[0] != data:
                self._seen = seen = (data, parse_triggers(data, str(self._path)))
            return seen[1]
        except ConfigurationRefused:
            return None  # whoever watches the file tells

    def mark(self, key: str, mark: Disarmed | None) -> bool:
        try:
            edit(self._path, lambda content: self._changed(content, key, mark))
        except (ConfigurationRefused, FileInUse) as error:
            log.warning("trigger_disarm_failed", key=key, problem=str(error))
            return False
        return True

    def _changed(self, content: bytes, key: str, mark: Disarmed | None) -> bytes:
        """Nothing is ever put into a file that cannot be parsed, nor into another entry."""
        name = str(self._path)
        entry = _one_shot(parse_triggers(content, name), key)
        if entry is None:
            raise ConfigurationRefused([f"{name}: has no one-shot {key}"])
        if mark is None:
            return without_disarmed(content, name, entry.index)
        return with_disarmed(content, name, entry.index, mark)


def _one_shot(triggers: Triggers, key: str) -> Trigger | None:
    entry = triggers.by_id(key)
    return entry if entry is not None and is_once(entry) else None
