"""Build the job image: base, npm tree, file layout, one `docker build`; do nothing when it is up to date."""

import contextlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from pidispatch.errors import BoxFault
from pidispatch.runtime.engine import Engine, given_or_own, translated
from pidispatch.runtime.imagebase import REGISTRY_BASE, Base, choose_base
from pidispatch.runtime.imageinputs import (
    LABEL_INPUTS,
    PI_PACKAGE,
    ImageBuildFailed,
    ImageInputs,
    read_inputs,
)
from pidispatch.runtime.imagetree import PI_MODULES, write_tree

_BUILD_SECONDS = 900
_CONTEXT = ("Dockerfile", "packages.txt", "install-packages.sh")


def build(
    tag: str,
    *,
    image_dir: Path,
    work_dir: Path,
    progress: Callable[[str], None],
    base: Base = "auto",
    engine: Engine | None = None,
) -> str:
    """The id of the image `tag` now names.

    `work_dir` keeps what was fetched, so that a second build needs no network. Raises ImageBuildFailed,
    EngineUnavailable, or a BoxFault of the engine.
    """
    try:
        with given_or_own(engine) as asked:
            return _built(asked, tag, image_dir, work_dir, base=base, progress=progress)
    except OSError as error:
        raise ImageBuildFailed(str(error)) from error


def _built(
    engine: Engine, tag: str, image_dir: Path, work_dir: Path, *, base: Base, progress: Callable[[str], None]
) -> str:
    inputs = read_inputs(image_dir, engine_architecture(engine))
    earlier, built_from = _earlier(engine, tag)
    if earlier is not None and built_from == inputs.digest:
        progress(f"{tag} is up to date")
        return earlier
    image_id = _build(engine, tag, inputs, work_dir, base=base, say=_timed(progress))
    if earlier not in (None, image_id) and built_from is not None:
        _forget(engine, str(earlier))
    _prune(work_dir, inputs)
    return image_id


def _build(
    engine: Engine, tag: str, inputs: ImageInputs, work_dir: Path, *, base: Base, say: Callable[[str], None]
) -> str:
    work_dir.mkdir(parents=True, exist_ok=True)
    chosen = choose_base(engine, inputs, work_dir, say, base)
    node_modules = _npm_tree(work_dir, inputs, say)
    say(f"building {tag} from {chosen}")
    with tempfile.TemporaryDirectory(dir=work_dir, prefix="context-") as scratch:
        context = Path(scratch, "context.tar")
        _write_context(context, inputs, node_modules, Path(scratch))
        image_id = _docker_build(engine, tag, context, chosen, inputs)
    say(f"{tag} is ready")
    return image_id


def engine_architecture(engine: Engine) -> str:
    """Docker's word for the engine's processor, as in an image's `Architecture`."""
    return engine.remembered("architecture", lambda api: str(api.version()["Arch"]))


def _earlier(engine: Engine, tag: str) -> tuple[str | None, str | None]:
    """The id `tag` names now, and the digest of the inputs it was built from."""
    with translated(f"look for {tag}"):
        try:
            found = engine.api.inspect_image(tag)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return None, None
    labels = (found.get("Config") or {}).get("Labels") or {}
    return str(found["Id"]), labels.get(LABEL_INPUTS)


def _forget(engine: Engine, image_id: str) -> None:
    """Remove an image of ours that lost its tag, unless a container or another tag still uses it."""
    with contextlib.suppress(BoxFault), translated("remove the earlier image"):
        engine.api.remove_image(image_id)


def _prune(work_dir: Path, inputs: ImageInputs) -> None:
    """Forget what earlier locks and package lists needed."""
    kept = {f"node_modules-{inputs.npm_digest}", f"base-{inputs.base_digest}.tar"}
    for pattern in ("node_modules-*", "base-*.tar"):
        for found in work_dir.glob(pattern):
            if found.is_dir() and found.name not in kept:
                shutil.rmtree(found, ignore_errors=True)
            elif found.name not in kept:
                found.unlink(missing_ok=True)


def _npm_tree(work_dir: Path, inputs: ImageInputs, progress: Callable[[str], None]) -> Path:
    """What the image needs of the lock's `node_modules`, installed once for each lock."""
    kept = work_dir / f"node_modules-{inputs.npm_digest}"
    if kept.exists():
        return kept
    if shutil.which("npm") is None:
        raise ImageBuildFailed("npm is missing", way_out="run `apt-get install npm`")
    progress(f"fetching pi {inputs.pi_version} and node with npm")
    with tempfile.TemporaryDirectory(dir=work_dir, prefix="npm-") as scratch:
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(inputs.directory / name, Path(scratch, name))
        command = ["npm", "ci", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund"]
        done = subprocess.run(
            command, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()[:3]
            raise ImageBuildFailed(
                f"npm ci failed: {' / '.join(said)}", way_out="is the npm registry reachable?"
            )
        modules = Path(scratch, "node_modules")
        if not (modules / inputs.node_package / "bin/node").exists():
            raise ImageBuildFailed(f"npm did not install {inputs.node_package}: another architecture?")
        chosen = Path(scratch, "chosen")
        for name in (PI_PACKAGE, inputs.node_package, *PI_MODULES):
            (chosen / name).parent.mkdir(parents=True, exist_ok=True)
            (modules / name).rename(chosen / name)
        chosen.rename(kept)
    return kept


def _write_context(target: Path, inputs: ImageInputs, node_modules: Path, scratch: Path) -> None:
    tree = scratch / "tree.tar"
    write_tree(tree, inputs, node_modules)
    with tarfile.open(target, "w") as tar:
        for name in _CONTEXT:
            raw = (inputs.directory / name).read_bytes()
            entry = tarfile.TarInfo(name)  # time 0: the engine's build cache looks at it
            entry.size, entry.mode = len(raw), 0o644
            tar.addfile(entry, io.BytesIO(raw))
        entry = tarfile.TarInfo("tree.tar")
        entry.size, entry.mode = tree.stat().st_size, 0o644
        with tree.open("rb") as stream:
            tar.addfile(entry, stream)


def _docker_build(engine: Engine, tag: str, context: Path, base: str, inputs: ImageInputs) -> str:
    with (
        engine.opened(timeout=_BUILD_SECONDS) as api,
        translated("build the job image"),
        context.open("rb") as stream,
    ):
        answers = api.build(
            fileobj=stream,
            custom_context=True,
            tag=tag,
            buildargs={"BASE": base},
            labels=inputs.labels,
            rm=True,
            forcerm=True,
            decode=True,
            network_mode=None if base == REGISTRY_BASE else "none",
        )
        _read_answers(answers)
        return str(api.inspect_image(tag)["Id"])  # type: ignore[no-untyped-call]


def _read_answers(answers: Iterator[Any]) -> None:
    """The engine reports a failed step in the stream, with status 200."""
    last: list[str] = []
    for answer in answers:
        last = [*last, str(answer.get("stream", "")).strip()][-6:]
        if "error" in answer:
            said = " / ".join(line for line in last if line)
            raise ImageBuildFailed(f"{answer['error']} ({said})")


def _timed(progress: Callable[[str], None]) -> Callable[[str], None]:
    started = time.monotonic()

    def say(line: str) -> None:
        progress(f"[{time.monotonic() - started:5.1f} s] {line}")

    return say
