"""A clock that a test may move: Postgres's by libfaketime, the worker's in Python.

libfaketime 0.9.10 makes `time.sleep(0)` fail with EINVAL, which dramatiq's master calls as it starts.
"""

import os
import stat
import time
from pathlib import Path

from pidispatch.services.binaries import PostgresBinaries, find_postgres

VARIABLE = "PIDISPATCH_FAULT_CLOCK"  # the file with the offset, for a worker
LIBRARIES = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime")


class Clock:
    """The machine's own clock: nobody can move it."""

    def programs(self) -> PostgresBinaries | None:
        return None

    def environment(self) -> dict[str, str]:
        return {}

    def jump(self, seconds: int) -> None:
        raise NotImplementedError("this house has no clock to move")


class FakeClock(Clock):
    """Wall time moves, the monotonic clock stays: as when somebody sets a machine's clock."""

    def __init__(self, folder: Path) -> None:
        library = next((Path(each, "libfaketimeMT.so.1") for each in LIBRARIES if Path(each).is_dir()), None)
        if library is None:
            raise FileNotFoundError("libfaketime is missing: apt-get install faketime")
        self._folder, self._library = folder, library
        self._file = folder / "offset"
        self._offset = 0
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)
        self.jump(0)

    def environment(self) -> dict[str, str]:
        return {VARIABLE: str(self._file)}

    def _preload(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def jump(self, seconds: int) -> None:
        self._offset += seconds
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{self._offset:+d}\n")
        fresh.chmod(0o644)
        fresh.rename(self._file)

    def programs(self) -> PostgresBinaries:
        """Postgres's own programs behind scripts that set the clock's environment."""
        real = find_postgres()
        folder = self._folder / "bin"
        folder.mkdir(mode=0o755)
        settings = " ".join(f"{name}={value}" for name, value in self._preload().items())
        for name in ("postgres", "initdb", "psql"):
            script = folder / name
            extra = f"env {settings} " if name == "postgres" else ""
            script.write_text(f'#!/bin/sh\nexec {extra}{real.program(name)} "$@"\n')
            script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        return PostgresBinaries(folder, real.major)


def move_time() -> None:
    """In a process whose environment names a clock: `time.time` follows it."""
    if VARIABLE not in os.environ:
        return
    file, real = Path(os.environ[VARIABLE]), time.time
    time.time = lambda: real() + int(file.read_text())
