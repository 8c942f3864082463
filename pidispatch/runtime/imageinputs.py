"""Read what the job image is made of: pinned versions, packages, and one hash over all of it."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from pidispatch.domain.runs.capabilities import OWN_INIT
from pidispatch.errors import PidispatchError

PI_PACKAGE = "@earendil-works/pi-coding-agent"
# What the image itself keeps to. Not here: `costCap` and `modelPolicy`, which the gateway keeps whatever the image does, and
# `commands`, of which pi registers none here. `replicas`: its rules let an agent push the branch that its prompt names.
CAPABILITIES = ("report", "excludeTools", "anyUid", "replicas", OWN_INIT)

LABEL_PI = "dev.pi-dispatch.pi-version"
LABEL_CAPABILITIES = "dev.pi-dispatch.capabilities"
LABEL_INPUTS = "dev.pidispatch.inputs"

_LAYOUT = "2"  # part of the hash: raise it when imagetree.py lays files out differently
_NODE_ARCHITECTURES = {"amd64": "x64", "arm64": "arm64"}


class ImageBuildFailed(PidispatchError):
    """The job image could not be built here. `way_out` says what a person can do."""

    def __init__(self, problem: str, *, way_out: str = "") -> None:
        self.problem, self.way_out = problem, way_out
        super().__init__(f"the job image could not be built: {problem}" + (f"; {way_out}" if way_out else ""))


@dataclass(frozen=True, slots=True)
class ImageInputs:
    """The image's sources. `architecture` is Docker's word, `node_package` the npm package with its node."""

    directory: Path
    architecture: str
    pi_version: str
    node_package: str
    packages: tuple[str, ...]
    digest: str
    npm_digest: str
    base_digest: str

    @property
    def labels(self) -> dict[str, str]:
        return {
            LABEL_PI: self.pi_version,
            LABEL_CAPABILITIES: ",".join(CAPABILITIES),
            LABEL_INPUTS: self.digest,
        }


def read_inputs(directory: Path, architecture: str) -> ImageInputs:
    """Raises ImageBuildFailed when a file is missing or the architecture has no node package."""
    try:
        manifest = json.loads((directory / "package.json").read_bytes())
        packages = tuple((directory / "packages.txt").read_text().split())
        locked = (directory / "package-lock.json").read_bytes()
        files = _source_files(directory)
    except (OSError, ValueError) as error:
        raise ImageBuildFailed(f"its sources cannot be read: {error}") from error
    if architecture not in _NODE_ARCHITECTURES:
        raise ImageBuildFailed(f"there is no node for {architecture} engines, only for amd64 and arm64")
    return ImageInputs(
        directory=directory,
        architecture=architecture,
        pi_version=manifest["dependencies"][PI_PACKAGE],
        node_package=f"node-linux-{_NODE_ARCHITECTURES[architecture]}",
        packages=packages,
        digest=_digest(_LAYOUT, architecture, *(part for entry in files for part in entry)),
        npm_digest=_digest(architecture, locked),
        base_digest=_digest(architecture, *packages),
    )


def _source_files(directory: Path) -> list[tuple[str, bytes]]:
    found = []
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory)
        if path.is_file() and "__pycache__" not in name.parts and name.parts[0] != "build":
            found.append((name.as_posix(), path.read_bytes()))
    return found


def _digest(*parts: str | bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "big") + raw)
    return total.hexdigest()[:32]
