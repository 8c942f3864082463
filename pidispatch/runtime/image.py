"""Answer what an image is, and whether it is the one this version would build."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from pidispatch.domain.box.facts import ImageFacts
from pidispatch.runtime.engine import Engine, given_or_own, translated
from pidispatch.runtime.imagebuild import build, engine_architecture
from pidispatch.runtime.imageinputs import (
    CAPABILITIES,
    LABEL_CAPABILITIES,
    LABEL_INPUTS,
    LABEL_PI,
    ImageBuildFailed,
    read_inputs,
)

__all__ = ["DockerImages", "ImageBuildFailed", "ImageCheck", "build", "check"]


class DockerImages:
    """`ports.Images` on a Docker engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def facts(self, tag: str) -> ImageFacts | None:
        found = _inspect(self._engine, tag)
        if found is None:
            return None
        architecture = str(found.get("Architecture") or "")
        return ImageFacts(
            image_id=str(found["Id"]),
            labels=_labels(found),
            architecture=architecture,
            runs_here=architecture == engine_architecture(self._engine),
        )

    def engine_id(self) -> str:
        return self._engine.remembered("id", lambda api: str(api.info()["ID"]))


@dataclass(frozen=True, slots=True)
class ImageCheck:
    """What is wrong with an image, one sentence each, and what to do; `pi_version` is what its label says."""

    tag: str
    image_id: str | None
    pi_version: str | None
    problems: tuple[str, ...]
    way_out: str

    @property
    def ok(self) -> bool:
        return not self.problems


def check(tag: str, *, image_dir: Path, engine: Engine | None = None) -> ImageCheck:
    """Compare the image with the sources in `image_dir`. Raises EngineUnavailable, ImageBuildFailed."""
    with given_or_own(engine) as asked:
        facts = DockerImages(asked).facts(tag)
        way_out = f"run `pidispatch image build` (tag {tag})"
        if facts is None:
            return ImageCheck(tag, None, None, (f"the engine has no image {tag}",), way_out)
        problems = tuple(_problems(facts, image_dir, asked))
    return ImageCheck(tag, facts.image_id, facts.labels.get(LABEL_PI), problems, way_out if problems else "")


def _problems(facts: ImageFacts, image_dir: Path, engine: Engine) -> Iterator[str]:
    if not facts.runs_here:
        yield f"it is made for {facts.architecture}, the engine runs another architecture"
    version = facts.labels.get(LABEL_PI)
    if version is None:
        yield f"it has no label {LABEL_PI}, so it does not say that it keeps the box's contract"
    missing = set(CAPABILITIES) - set(facts.labels.get(LABEL_CAPABILITIES, "").split(","))
    if missing:
        yield f"it cannot do: {', '.join(sorted(missing))}"
    # An image of somebody else's making has no inputs label: it may keep the contract all the same.
    if LABEL_INPUTS not in facts.labels:
        return
    inputs = read_inputs(image_dir, engine_architecture(engine))
    if version != inputs.pi_version:
        yield f"it holds pi {version}, this version of pidispatch uses {inputs.pi_version}"
    if facts.labels[LABEL_INPUTS] != inputs.digest:
        yield "it was built from other files (runner, packages or locks) than this version's"


def _inspect(engine: Engine, tag: str) -> dict[str, Any] | None:
    with translated(f"look for the image {tag}"):
        try:
            found: dict[str, Any] = engine.api.inspect_image(tag)  # type: ignore[no-untyped-call]
        except ImageNotFound:
            return None
    return found


def _labels(found: dict[str, Any]) -> dict[str, str]:
    return dict((found.get("Config") or {}).get("Labels") or {})
