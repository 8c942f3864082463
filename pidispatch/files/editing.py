"""Change a few bytes of an operator's file, while others may change it too."""

from collections.abc import Callable
from pathlib import Path

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
