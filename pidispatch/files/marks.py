"""The marks of used-up one-shots in the file of triggers."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import structlog

from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.grammar.marking import with_disarmed, without_disarmed
from pidispatch.domain.triggers.oneshot import is_once
from pidispatch.domain.triggers.trigger import Disarmed, Trigger, Triggers
from pidispatch.errors import ConfigurationRefused, FileInUse
from pidispatch.files.lockfile import lock_file
from pidispatch.files.reading import READ_LIMIT, read
from pidispatch.files.replacing import swap

TRIES = 3  # an editor takes no lock: when it was faster, its text is the one to change


def edit(path: Path, change: Callable[[bytes], bytes]) -> bool:
    """Write what `change` makes of the file; False when that is what it held. A link stays, its target is replaced.

    Raises FileInUse, ConfigurationRefused when there is no file or it cannot be written, and whatever `change` raises.
    """
    try:
        with lock_file(path) as lock:
            for _ in range(TRIES):
                old = read(path).data
                if old is None or len(old) >= READ_LIMIT:
                    raise ConfigurationRefused([f"{path}: is {'not there' if old is None else 'too large'}"])
                new = change(old)
                if new == old:
                    return False
                if read(path).data == old and lock.is_ours():
                    swap(path.resolve(), new)
                    return True
    except OSError as error:
        raise ConfigurationRefused([f"{path}: cannot be written: {error.strerror}"]) from error
    raise FileInUse(path)


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
