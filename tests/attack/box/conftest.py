"""A worker's flows on a real engine, with folders that somebody else owns and can exchange."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pidispatch.files.githead import head_commit
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.jobfiles import JobFiles
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.runtime.workspace import folder_change, open_folder
from tests.flows.site import FakeDoors, Site
from tests.store.builders import HOST
from tests.support.boxes import SOMEBODY

HEAD = "b" * 40


class Ground:
    """A directory of an unprivileged user: `repo`, and a place of the victim's that he may not enter."""

    def __init__(self, root: Path) -> None:
        self.mine = root / "somebody"
        self.repo = self.mine / "repo"
        (self.repo / ".git").mkdir(parents=True)
        (self.repo / ".git" / "HEAD").write_text(HEAD + "\n")
        (self.repo / "own").touch()
        self.victim = root / "victim"
        self.victim.mkdir()
        (self.victim / "secret").write_text("key\n")
        for path in (self.mine, *self.mine.rglob("*")):
            os.lchown(path, SOMEBODY, SOMEBODY)
        root.chmod(0o711)
        self.link = self.mine / "link"
        self.link.symlink_to(self.victim)


@pytest.fixture
def ground():
    if os.geteuid() != 0:
        pytest.skip("only root can make folders of somebody else")
    root = Path(tempfile.mkdtemp(prefix="pd-ground-", dir="/tmp"))
    yield Ground(root)
    shutil.rmtree(root)


class RealDoors(FakeDoors):
    """Doors that are directories, as a gateway makes them."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def open(self, run_id):
        super().open(run_id)
        (self.root / str(run_id)).mkdir(parents=True, exist_ok=True)
        return str(self.root / str(run_id))


@pytest.fixture(params=["bound", "by name"])
def mounts(request, engine, tmp_path):
    """As a worker that is root has it, and as one that may not mount."""
    made = DockerMounts(engine, tmp_path / "run")
    made._may_bind = request.param == "bound"
    return made


@pytest.fixture
def site(database, engine, installation, mounts, tmp_path):
    site = Site(
        database, boxes=DockerBoxes(engine), files=JobFiles(tmp_path / "jobs"), installation=installation
    )
    launcher = site.launcher
    launcher._mounts = site.mounts = mounts
    launcher._doors = site.doors = RealDoors(tmp_path / "doors")
    launcher._head_commit = head_commit
    launcher._open_folder = lambda path: open_folder(path, worker_uid=os.geteuid())
    site.gate._checks._open_folder = launcher._open_folder
    site.finisher._folder_change = lambda workspace: folder_change(workspace, host=HOST)
    site.workspace_watch._folder_change = site.finisher._folder_change
    return site
