"""Keep a file that is there to be deleted: a full disk then has room for a start."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_KEPT_FREE = 4  # it is made only where this many times its size are free


@dataclass(frozen=True, slots=True)
class Ballast:
    """A file of zeros whose blocks are really taken."""

    path: Path

    def size(self) -> int:
        """Bytes that deleting it would free; 0 when there is none."""
        try:
            return self.path.lstat().st_blocks * 512
        except OSError:
            return 0

    def free(self) -> int:
        """Delete it; returns how many bytes that frees. Never raises."""
        freed = self.size()
        try:
            self.path.unlink()
        except OSError:
            return 0
        return freed

    def make(self, size: int) -> bool:
        """Have it at `size` bytes, if it can be without making the disk scarce; whether it is there now. Never raises."""
        if size == 0:
            self.free()
            return False
        if self.size() >= size:
            return True
        try:
            there = os.statvfs(self.path.parent)
            if there.f_bavail * there.f_frsize < _KEPT_FREE * size:
                return False
            self._write(size)
        except OSError:
            return False
        return True

    def _write(self, size: int) -> None:
        partial = self.path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        descriptor = os.open(
            partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            os.posix_fallocate(descriptor, 0, size)
            partial.replace(self.path)
        except OSError:
            with suppress(OSError):
                partial.unlink()
            raise
        finally:
            os.close(descriptor)
