"""Gather what a Docker engine does for pidispatch: what another kind of engine would have to do in its place."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import ANSWER_SECONDS, Engine
from pidispatch.runtime.gitbox import DockerGitBox
from pidispatch.runtime.image import DockerImages
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.runtime.ownergit import NOTHING
from pidispatch.runtime.sizedfiles import EngineSight


class DockerRuntime:
    """`run_dir` is where doors and mounts lie. Nothing connects before the first use."""

    def __init__(self, run_dir: Path, *, answer_seconds: int | None = None) -> None:
        self._run_dir = run_dir
        self.engine = Engine(answer_seconds=answer_seconds or ANSWER_SECONDS)

    @cached_property
    def boxes(self) -> DockerBoxes:
        """`ports.Boxes` and `ports.BoxWatch`."""
        return DockerBoxes(self.engine)

    @cached_property
    def images(self) -> DockerImages:
        """`ports.Images`."""
        return DockerImages(self.engine)

    @cached_property
    def mounts(self) -> DockerMounts:
        """`ports.Mounts`."""
        return DockerMounts(self.engine, self._run_dir)

    @cached_property
    def sight(self) -> EngineSight:
        """Which file systems of this host the engine sees."""
        return EngineSight(self.engine)

    def git_box(self, installation: str, environment: Mapping[str, str] = NOTHING) -> DockerGitBox:
        """`ports.GitBox`, under the label of this installation."""
        return DockerGitBox(
            self.engine, installation=installation, mounts=self.mounts, environment=environment
        )

    def close(self) -> None:
        self.engine.close()
