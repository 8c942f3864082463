"""Lay out what the job image adds to its Debian base, as one tar of root-owned files."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from pidispatch.runtime.imageinputs import PI_PACKAGE, ImageInputs

HOME = "opt/pidispatch"
RUNNER = f"{HOME}/runner"
FLOOR = f"{HOME}/floor"  # what every agent is told
PI = f"{HOME}/pi"

# pi's command line is one bundle, but it loads these at run time; without jiti no extension loads.
_PI_PARTS = ("package.json", "dist/bundle", "dist/modes/interactive/theme", "dist/core/export-html")
PI_MODULES = ("quickjs-wasi", "jiti", "@silvia-odwyer/photon-node")

# Mount points exist already, since the box's root is read-only; any uid may write where no mount comes.
_DIRECTORIES = {
    HOME: 0o755,
    "agent": 0o777,
    "gate": 0o755,
    "home/pi": 0o777,
    "job": 0o755,
    "outbox": 0o777,
    "session": 0o777,
    "workspace": 0o777,
}
_LINKS = {
    "usr/local/bin/fd": "/usr/bin/fdfind",
    "usr/local/bin/pi": f"/{PI}/dist/bundle/cli.js",
}


def write_tree(target: Path, inputs: ImageInputs, node_modules: Path) -> None:
    """Write the tar; the same inputs give the same bytes."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, mode in _DIRECTORIES.items():
            tar.addfile(_entry(name, mode, tarfile.DIRTYPE))
        for name, source, executable in _files(inputs, node_modules):
            raw = source.read_bytes()
            entry = _entry(name, 0o755 if executable else 0o644, tarfile.REGTYPE)
            entry.size = len(raw)
            tar.addfile(entry, io.BytesIO(raw))
        for name, pointed in _LINKS.items():
            entry = _entry(name, 0o777, tarfile.SYMTYPE)
            entry.linkname = pointed
            tar.addfile(entry)


def _files(inputs: ImageInputs, node_modules: Path) -> Iterator[tuple[str, Path, bool]]:
    """Yield (name in the image, file here, executable)."""
    yield "usr/local/bin/node", node_modules / inputs.node_package / "bin/node", True
    yield "etc/gitconfig", inputs.directory / "gitconfig", False
    yield f"{HOME}/start.py", inputs.directory / "start.py", False
    for source in _walk(inputs.directory / "runner"):
        yield f"{RUNNER}/{source.relative_to(inputs.directory / 'runner').as_posix()}", source, False
    for source in _walk(inputs.directory / "floor"):
        yield f"{FLOOR}/{source.name}", source, False
    package = node_modules / PI_PACKAGE
    for part in _PI_PARTS:
        for source in _walk(package / part):
            name = source.relative_to(package).as_posix()
            yield f"{PI}/{name}", source, name == "dist/bundle/cli.js"
    for module in PI_MODULES:
        for source in _walk(node_modules / module):
            yield f"{PI}/node_modules/{source.relative_to(node_modules).as_posix()}", source, False


def _walk(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for child in sorted(path.rglob("*")):
        if child.is_file() and "__pycache__" not in child.parts:
            yield child


def _entry(name: str, mode: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type = mode, kind
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 0
    return entry
