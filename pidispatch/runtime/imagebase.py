"""Choose and make the Debian base of the job image: from a registry, or by debootstrap without one."""

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from docker.errors import ImageNotFound

from pidispatch.errors import BoxFault, EngineUnavailable
from pidispatch.runtime.engine import Engine, translated
from pidispatch.runtime.imageinputs import ImageBuildFailed, ImageInputs

Base = Literal["auto", "registry", "debootstrap"]

REGISTRY_BASE = "debian:bookworm-slim"
_SUITE = "bookworm"
_PROBE_SECONDS = 8
_IMPORT_SECONDS = 600
_DROPPED = ("usr/share/doc/", "usr/share/man/", "usr/share/locale/", "var/cache/apt/", "var/lib/apt/lists/")


def choose_base(
    engine: Engine, inputs: ImageInputs, work_dir: Path, progress: Callable[[str], None], base: Base
) -> str:
    """The tag to build from; it exists in the engine when this returns. Raises ImageBuildFailed."""
    made_here = f"pidispatch-base:{inputs.base_digest}"
    if base != "registry" and _present(engine, made_here):
        progress(f"base {made_here}: made earlier")
        return made_here
    if base != "debootstrap":
        if _present(engine, REGISTRY_BASE) or _pulled(engine, progress):
            return REGISTRY_BASE
        if base == "registry":
            raise ImageBuildFailed(f"no registry answers for {REGISTRY_BASE}", way_out="try base debootstrap")
    archive = work_dir / f"base-{inputs.base_digest}.tar"
    if not archive.exists():
        _bootstrap(archive, inputs, progress)
    progress(f"importing the base as {made_here}")
    with engine.opened(timeout=_IMPORT_SECONDS) as api, translated("import the base image"):
        api.import_image_from_file(str(archive), *made_here.split(":"))
    return made_here


def _present(engine: Engine, tag: str) -> bool:
    with translated(f"look for {tag}"):
        try:
            engine.api.inspect_image(tag)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return False
        return True


def _pulled(engine: Engine, progress: Callable[[str], None]) -> bool:
    """Ask the registry with a short time-out first: a pull without one hangs for minutes."""
    progress(f"asking the registry for {REGISTRY_BASE} (at most {_PROBE_SECONDS} s)")
    try:
        with engine.opened(timeout=_PROBE_SECONDS) as api, translated("ask the registry"):
            api.inspect_distribution(REGISTRY_BASE)  # type: ignore[no-untyped-call]
        progress(f"pulling {REGISTRY_BASE}")
        with engine.opened(timeout=_IMPORT_SECONDS) as api, translated("pull the base image"):
            repository, tag = REGISTRY_BASE.split(":")
            api.pull(repository, tag=tag)
    except (BoxFault, EngineUnavailable) as error:
        progress(f"no registry answers ({str(error).splitlines()[0][:160]})")
        return False
    return True


def _bootstrap(archive: Path, inputs: ImageInputs, progress: Callable[[str], None]) -> None:
    if os.geteuid() != 0:
        raise ImageBuildFailed(
            "no registry answers and debootstrap needs root",
            way_out="run `pidispatch image build` once as root, or make a registry reachable",
        )
    if shutil.which("debootstrap") is None:
        raise ImageBuildFailed("debootstrap is missing", way_out="run `apt-get install debootstrap`")
    progress("making a Debian base with debootstrap (about 40 s)")
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="debootstrap-") as scratch:
        root = Path(scratch, "root")
        command = [
            "debootstrap",
            "--variant=minbase",
            f"--arch={inputs.architecture}",
            f"--include={','.join(inputs.packages)}",
            _SUITE,
            str(root),
        ]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode != 0:
            said = done.stdout.decode(errors="replace").strip().splitlines()[-3:]
            raise ImageBuildFailed(
                f"debootstrap failed: {' / '.join(said)}",
                way_out="is a Debian mirror reachable, and is this not a container without mknod?",
            )
        progress("packing the base")
        _pack(root, archive)


def _pack(root: Path, archive: Path) -> None:
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(root, arcname=".", filter=_kept)
    partial.rename(archive)


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what an agent does not read; copyright files stay, as Debian's slim images keep them."""
    name = entry.name.removeprefix("./")
    if entry.isdir() or name.endswith("/copyright"):
        return entry
    return None if name.startswith(_DROPPED) else entry
