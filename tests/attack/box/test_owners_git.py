"""A folder is clean or dirty as its owner's git would say, and nothing of the folder is run to find out."""

import hashlib
import os
import subprocess

import pytest

from pidispatch.runtime import ownergit
from pidispatch.runtime.gitbox import DockerGitBox
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.runtime.workspace import open_folder
from tests.support.boxes import SOMEBODY
from tests.support.image import IMAGE

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("attack-box")]
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "safe.directory=*")
RAN = "touch /workspace/ran /tmp/ran; echo ran >&2; false"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(ownergit, "SYSTEM", tmp_path / "no-system-file")
    (tmp_path / ".config/git").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def repo(ground):
    repo = ground.mine / "work"
    repo.mkdir()
    (repo / "f").write_text("a\n")
    git(repo, "init", "-q")
    return repo


def git(folder, *arguments):
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
    quiet["GIT_ALLOW_PROTOCOL"] = "file"
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, env=quiet, check=True, capture_output=True)


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")


def touched(path):
    """As git would find a file whose time it does not know: it has to look at the content."""
    os.utime(path, (1, 1))


@pytest.fixture
def state(engine, installation, tmp_path_factory, home):
    box = DockerGitBox(
        engine,
        installation=installation,
        mounts=DockerMounts(engine, tmp_path_factory.mktemp("run")),
        environment={"HOME": str(home)},
    )

    def ask(folder):
        subprocess.run(["chown", "-R", f"{SOMEBODY}:{SOMEBODY}", folder], check=True)
        return box.state(open_folder(str(folder), worker_uid=os.geteuid()), image=IMAGE)

    return ask


def test_what_the_owner_ignores_everywhere_is_no_change(repo, home, state):
    commit(repo)
    (repo / ".idea").mkdir()
    (repo / ".idea/w.xml").touch()

    before = state(repo)
    (home / ".config/git/ignore").write_text(".idea/\n")

    assert (before.dirty, before.changed) == (True, (".idea/",))
    assert not state(repo).dirty


def test_line_ends_that_the_owners_git_converts_are_no_change(repo, home, state):
    (repo / "f").write_bytes(b"a\r\n")
    git(repo, "-c", "core.autocrlf=true", "add", "-A")
    git(repo, "-c", "core.autocrlf=true", "commit", "-q", "-m", "first")
    touched(repo / "f")

    before = state(repo)
    (home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")

    assert before.dirty
    assert not state(repo).dirty


def test_the_repositorys_own_word_about_line_ends_goes_first(repo, home, state):
    commit(repo)
    git(repo, "config", "core.autocrlf", "false")
    (repo / "f").write_bytes(b"a\r\n")
    (home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")

    assert state(repo).dirty


@pytest.fixture
def lfs(repo):
    """A file of Git LFS, checked out: its pointer is committed, its content is there."""
    content = b"large\n" * 1000
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(content).hexdigest()}\nsize 6000\n"
    (repo / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (repo / "big one.bin").write_text(pointer)
    commit(repo)
    (repo / "big one.bin").write_bytes(content)
    return repo


def test_a_file_of_git_lfs_is_compared_with_its_pointer(lfs, state):
    assert not state(lfs).dirty


@pytest.mark.parametrize("change", ["content", "mode", "no attribute", "a filter of the repository"])
def test_a_file_of_git_lfs_that_changed_is_a_change(lfs, state, change):
    file = lfs / "big one.bin"
    match change:
        case "content":
            file.write_bytes(file.read_bytes().replace(b"l", b"L", 1))
        case "mode":
            file.chmod(0o755)
        case "no attribute":
            (lfs / ".gitattributes").write_text("")
            commit_only(lfs, ".gitattributes")
        case "a filter of the repository":  # it would say that all is well
            git(lfs, "config", "filter.lfs.clean", "git show :'big one.bin'")
            file.write_bytes(b"another\n")

    found = state(lfs)

    assert (found.dirty, found.changed) == (True, ("big one.bin",))


def commit_only(folder, name):
    git(folder, "add", name)
    git(folder, "commit", "-q", "-m", "more", "--", name)


@pytest.mark.parametrize(
    "setting",
    ["filter.evil.clean", "filter.evil.process", 'filter.e=v"l x.clean', "core.fsmonitor", "diff.external"],
)
def test_no_program_of_the_repository_is_run(repo, state, setting):
    name = setting.split(".")[1] if setting.startswith("filter") else "none"
    (repo / ".gitattributes").write_text(f"f filter={name}\n" if " " not in name else "f -filter\n")
    commit(repo)
    git(repo, "config", setting, RAN)
    if setting.startswith("filter"):
        git(repo, "config", f"filter.{name}.required", "true")
    touched(repo / "f")

    found = state(repo)

    assert (found.dirty, found.problem) == (False, None)
    assert not (repo / "ran").exists()


def test_a_submodule_is_looked_at_without_its_programs(repo, ground, state):
    other = ground.mine / "other"
    other.mkdir()
    (other / "g").write_text("b\n")
    git(other, "init", "-q")
    commit(other)
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    commit(repo)
    git(repo / "sub", "config", "core.fsmonitor", RAN)
    git(repo / "sub", "config", "filter.evil.clean", RAN)
    (repo / ".git/modules/sub/info/attributes").write_text("g filter=evil\n")
    touched(repo / "sub/g")
    clean = state(repo)
    (repo / "sub/g").write_text("changed\n")

    dirty = state(repo)

    assert (clean.dirty, clean.problem) == (False, None)
    assert (dirty.dirty, dirty.changed) == (True, ("sub",))


def test_a_refusal_can_name_three_paths_without_their_control_characters(repo, state):
    commit(repo)
    for name in ("a\x1b[31m", "b\nfake line", "c", "d"):
        (repo / name).touch()

    assert state(repo).changed == ("a[31m", "b fake line", "c")
