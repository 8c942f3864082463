"""Git is asked about the folder that was opened, or about nothing."""

import os
import subprocess
from pathlib import Path

import pytest

from pidispatch.errors import FolderRefused
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.gitbox import DockerGitBox
from pidispatch.runtime.workspace import open_folder
from tests.attack.box.swapping import exchange
from tests.support.boxes import SOMEBODY
from tests.support.image import IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("attack-box")]
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "safe.directory=*")


def commit(folder: Path) -> str:
    """Make it a repository of one commit; returns its name."""
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    (folder / f"file-of-{folder.name}").touch()
    for step in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first"), ("rev-parse", "HEAD")):
        done = subprocess.run(
            ["git", *IDENTITY, *step], cwd=folder, env=quiet, check=True, capture_output=True
        )
    subprocess.run(["chown", "-R", f"{SOMEBODY}:{SOMEBODY}", folder], check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def git(engine, installation, mounts):
    return DockerGitBox(engine, installation=installation, mounts=mounts)


@pytest.mark.parametrize("moment", ["before", "create", "start"])
def test_an_exchange_shows_git_no_other_folder(git, mounts, engine, installation, ground, moment):
    repo = ground.mine / "own-repo"
    repo.mkdir()
    head, theirs = commit(repo), commit(ground.victim)
    ground.victim.chmod(0o777)  # git in the box could read it
    folder = open_folder(str(repo), worker_uid=os.geteuid())
    if moment == "before":
        exchange(repo, ground.link)
    else:
        act = getattr(git._boxes, moment)

        def exchanged(*arguments):
            exchange(repo, ground.link)
            return act(*arguments)

        setattr(git._boxes, moment, exchanged)

    try:
        seen = git.state(folder, image=IMAGE).head
    except FolderRefused as error:
        seen = error.reason

    assert theirs != head
    assert seen == (head if mounts._may_bind and moment != "before" else "workspace-gone")
    assert list(DockerBoxes(engine).ours(installation)) == []


def test_a_git_file_that_is_exchanged_leads_to_no_repository_outside(git, ground):
    repo = ground.mine / "own-repo"
    repo.mkdir()
    commit(repo)
    commit(ground.victim)
    (ground.mine / "git-file").write_text(f"gitdir: {ground.victim}/.git\n")
    folder = open_folder(str(repo), worker_uid=os.geteuid())
    exchange(repo / ".git", ground.mine / "git-file")

    found = git.state(folder, image=IMAGE)

    assert (found.is_root, found.head) == (False, None)
    assert "outside the folder" in found.problem
