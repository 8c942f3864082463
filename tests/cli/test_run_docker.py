"""`run` on real repositories: git is asked in a box, and the host keeps no trace of what a folder tells git to do."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from tests.cli.conftest import SOMEBODY
from tests.store.builders import value
from tests.support.boxes import image_or_skip

pytestmark = pytest.mark.docker


class Repository:
    """A folder of somebody's, made with git on the host before anybody hostile touched it."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")
        (path / "hello.txt").write_text("hello\n")

    def git(self, *arguments):
        quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "safe.directory=*")
        subprocess.run(
            ["git", *identity, *arguments], cwd=self.path, env=quiet, check=True, capture_output=True
        )

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a commit")

    def give_away(self):
        subprocess.run(["chown", "-R", f"{SOMEBODY}:{SOMEBODY}", self.path], check=True)


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def repository(pidispatch, bare, database, engine):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    bare.setenv("PI_JOB_IMAGE", image_or_skip(engine))
    above = Path(tempfile.mkdtemp(prefix="pd-repos-", dir="/tmp"))
    above.chmod(0o755)
    yield Repository(above / "my \u4f60 repo:\nname")
    installation = str(value(database, "SELECT installation FROM hosts"))
    assert list(DockerBoxes(engine).ours(installation)) == []
    shutil.rmtree(above)


@pytest.fixture
def run(pidispatch, repository):
    """`run(…)` asks for a run in the repository, or below it."""

    def ask(*arguments, below="."):
        repository.give_away()
        return pidispatch("run", str(repository.path / below), "--task", "do it", *arguments)

    return ask


def test_a_clean_repository_is_queued_with_its_commit(run, repository, database):
    repository.commit()

    said = run()

    assert said.code == 0, said.err
    assert " is queued for local:my \u4f60 repo:\ufffdname\n" in said.out
    event = bytes(value(database, "SELECT event FROM run_payloads"))
    assert b'"sha": "' in event
    assert value(database, "SELECT folder FROM run_payloads") == os.fsencode(repository.path)


def test_a_folder_below_the_root_is_refused(run, repository, database):
    (repository.path / "below").mkdir()
    (repository.path / "below" / "file").touch()
    repository.commit()

    said = run(below="below")

    assert said.code == 1
    assert "it is not the root of a git repository" in said.err
    assert value(database, "SELECT count(*) FROM runs") == 0


def test_a_repository_without_a_commit_is_refused(run, database):
    said = run()

    assert said.code == 1
    assert "has no commit yet; commit something first" in said.err
    assert value(database, "SELECT count(*) FROM runs") == 0


def test_a_dirty_repository_is_refused_and_taken_by_force(run, repository, database):
    repository.commit()
    (repository.path / "hello.txt").write_text("changed\n")

    said = run()

    assert said.code == 1
    assert "commit them, or use --force" in said.err
    assert value(database, "SELECT count(*) FROM runs") == 0
    assert run("--force").code == 0
    assert value(database, "SELECT count(*) FROM runs") == 1


def test_a_folder_of_roots_is_refused_before_any_box(pidispatch, repository, database):
    repository.commit()

    said = pidispatch("run", str(repository.path), "--task", "do it")

    assert said.code == 1
    assert "chown -R" in said.err


def test_what_a_hostile_repository_tells_git_to_run_leaves_no_marker_on_the_host(run, repository, tmp_path):
    marker = tmp_path / "marker"
    tmp_path.chmod(0o777)
    act = f"touch {marker} /tmp/pd-cli-marker /workspace/marker; false"
    (repository.path / ".gitattributes").write_text("* filter=evil diff=evil\n")
    repository.commit()
    with (repository.path / ".git" / "config").open("a") as config:
        config.write(f'[core]\n fsmonitor = "{act}"\n hooksPath = hooks\n sshCommand = "{act}"\n')
        config.write(f'[filter "evil"]\n clean = "{act}"\n smudge = "{act}"\n process = "{act}"\n')
        config.write(f'[diff "evil"]\n textconv = "{act}"\n[diff]\n external = "{act}"\n')
        config.write(f'[alias]\n status = "!{act}"\n[include]\n path = more\n')
    (repository.path / ".git" / "more").write_text(f'[core]\n fsmonitor = "{act}"\n pager = "{act}"\n')
    (repository.path / "hello.txt").write_text("HELLO\n")

    said = run()

    assert said.code == 1
    for place in (marker, Path("/tmp/pd-cli-marker"), repository.path / "marker"):
        assert not os.path.lexists(place)


def test_a_missing_image_is_named_with_the_way_out(run, repository, bare):
    repository.commit()
    bare.setenv("PI_JOB_IMAGE", "pidispatch-no-such-image:1")

    said = run()

    assert said.code == 1
    assert said.err == (
        "pidispatch: the Docker engine has no image pidispatch-no-such-image:1; run `pidispatch image build`\n"
    )
    assert "has no image other:1; build or load it" in run("--image", "other:1").err


def test_an_engine_that_is_away_is_one_line(run, repository, bare, database):
    repository.commit()
    bare.setattr("pidispatch.runtime.dockerruntime.Engine", lambda **_: Engine("tcp://127.0.0.1:1"))

    said = run()

    assert said.code == 1
    assert said.err.startswith("pidispatch: the Docker engine does not answer: ")
    assert said.err.count("\n") == 1
    assert value(database, "SELECT count(*) FROM runs") == 0
