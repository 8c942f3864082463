"""What every git box, mount and check program does, on the fake as on the real thing."""

import os
import subprocess
import threading

import pytest

from pidispatch.domain.box.facts import LocalFolder
from pidispatch.domain.box.sandbox import Mount
from pidispatch.errors import FolderRefused
from pidispatch.ports import CheckEnd
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.gitbox import DockerGitBox
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.services.waitcheck import CheckPrograms
from tests.fakes.mounts import FakeMounts
from tests.fakes.outside import FakeChecks, FakeGitBox
from tests.support.boxes import an_installation, image_or_skip
from tests.support.image import IMAGE
from tests.support.patience import until

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.invalid")
SKILL = b"---\nname: review\n---\n"


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture
def changed(tmp_path):
    """A repository with a skill, and a change that nobody committed; and its commit."""
    root = tmp_path / "repo"
    skill = root / ".pi/skills/review/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_bytes(SKILL)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "a commit"]):
        subprocess.run([*GIT, *command], cwd=root, check=True)
    head = subprocess.run([*GIT, "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True).stdout
    (root / "new").write_text("x")
    facts = root.stat()
    return LocalFolder(
        str(root), facts.st_dev, facts.st_ino, os.geteuid(), os.getegid(), root.name
    ), head.decode().strip()


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def git(request, changed, tmp_path):
    if request.param == "fake":
        yield FakeGitBox(skills_at={changed[1]: {"review": SKILL}})
        return
    engine = request.getfixturevalue("engine")
    image_or_skip(engine)
    with an_installation(DockerBoxes(engine)) as label:
        yield DockerGitBox(engine, installation=label, mounts=DockerMounts(engine, tmp_path / "run"))


def test_a_folder_with_a_change_is_a_dirty_root_and_no_problem(git, changed):
    found = git.state(changed[0], image=IMAGE)

    assert (found.is_root, found.dirty, found.problem) == (True, True, None)


def test_skills_are_those_of_the_flows_that_have_one_at_the_commit(git, changed):
    folder, head = changed

    assert git.skills(folder, commit=head, flows=("review", "deploy"), image=IMAGE) == {"review": SKILL}
    assert git.skills(folder, commit=head, flows=("deploy",), image=IMAGE) == {}
    assert git.skills(folder, commit="0" * 40, flows=("review",), image=IMAGE) == {}


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def mounts(request, tmp_path):
    if request.param == "fake":
        return FakeMounts()
    return DockerMounts(request.getfixturevalue("engine"), tmp_path / "run")


@pytest.fixture
def folders(tmp_path):
    """Of both kinds: one that was looked at before, and a place of ours."""
    made = []
    for name, is_known in (("work", True), ("job", False)):
        path = tmp_path / name
        path.mkdir()
        facts = path.stat()
        identity = (facts.st_dev, facts.st_ino) if is_known else None
        made.append(Mount(str(path), f"/{name}", read_only=not is_known, identity=identity))
    return made


def test_what_is_held_is_what_was_asked_each_with_its_identity(mounts, folders):
    with mounts.hold("pi-job-contract-1-1", folders) as held:
        assert [(each.target, each.read_only) for each in held] == [("/work", False), ("/job", True)]
        assert held[0].identity == folders[0].identity
        assert all(each.identity is not None for each in held)


def test_a_box_that_has_ended_needs_no_comparison(mounts, folders):
    with mounts.hold("pi-job-contract-2-1", folders) as held:
        mounts.check("0" * 64, held)


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def exchanged(request, tmp_path, folders):
    """Mounts of a folder in whose place another lies."""
    if request.param == "fake":
        return FakeMounts(unheld=FolderRefused("workspace-gone", "another folder is in its place"))
    (tmp_path / "work").rename(tmp_path / "aside")
    (tmp_path / "work").mkdir()
    return DockerMounts(request.getfixturevalue("engine"), tmp_path / "run")


def test_a_folder_that_is_not_the_one_that_was_looked_at_is_not_held(exchanged, folders):
    with pytest.raises(FolderRefused) as refused, exchanged.hold("pi-job-contract-3-1", folders):
        pass

    assert refused.value.reason == "workspace-gone"


@pytest.fixture(params=["fake", "program"])
def checks(request, tmp_path):
    """And a program that ends well once `release` was called."""
    go = tmp_path / "go"
    program = tmp_path / "check"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/began\nuntil [ -e {go} ]; do sleep 0.05; done\n")
    program.chmod(0o755)
    if request.param == "fake":
        made = FakeChecks()
        made.began, made.let_go = (lambda: made.now), made.release.set
    else:
        made = CheckPrograms(timeout=60.0, home=None)
        made.began, made.let_go = (tmp_path / "began").exists, go.touch
    made.program = str(program)
    return made


def test_a_check_ends_with_the_word_of_its_program(checks):
    checks.let_go()

    assert checks.ask(checks.program, "local:held") == CheckEnd(0)


def test_what_is_broken_off_ends_without_an_answer_and_none_begins(checks):
    ends = []
    asking = threading.Thread(target=lambda: ends.append(checks.ask(checks.program, "local:held")))
    asking.start()
    until(checks.began)

    checks.break_off()
    asking.join(60)

    assert [(end.exit_code, end.broken_off) for end in ends] == [(None, True)]
    assert checks.ask(checks.program, "local:held").broken_off
