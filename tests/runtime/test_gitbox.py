"""Ask git about folders that an agent may have prepared."""

import os
import subprocess
import time
import zlib

import pytest

from pidispatch.domain.box.facts import LocalFolder
from pidispatch.domain.box.sandbox import LABEL_BORN, LABEL_INSTALLATION, LABEL_ROLE, MIB, ROLE_GIT
from pidispatch.errors import BoxFault, EntrypointMissing, ImageMissing
from pidispatch.runtime.gitbox import DockerGitBox
from tests.support.boxes import SOMEBODY, a_box
from tests.support.patience import slowness

pytestmark = pytest.mark.docker


class Repository:
    """A folder of somebody's, made with git on the host while nobody hostile touched it."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments):
        quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "safe.directory=*")
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.path, env=quiet, check=True, capture_output=True
        )
        return done.stdout.decode().strip()

    def write(self, name, content):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a commit")
        return self.git("rev-parse", "HEAD")

    def give_away(self):
        subprocess.run(["chown", "-R", f"{SOMEBODY}:{SOMEBODY}", self.path], check=True)


@pytest.fixture
def repository(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    made = Repository(tmp_path / "a: repo")
    made.write("hello.txt", b"hello\n")
    return made


def opened(path):
    facts = path.stat()
    return LocalFolder(str(path), facts.st_dev, facts.st_ino, SOMEBODY, SOMEBODY, path.name)


@pytest.fixture
def git(engine, installation, mounts):
    return DockerGitBox(engine, installation=installation, mounts=mounts)


@pytest.fixture
def state(git, job_image, boxes, installation):
    def ask(repository):
        repository.give_away()
        found = git.state(opened(repository.path), image=job_image)
        assert list(boxes.ours(installation)) == []
        return found

    return ask


@pytest.fixture
def diff(git, job_image):
    def ask(repository, since):
        repository.give_away()
        return git.diff(opened(repository.path), since=since, image=job_image)

    return ask


def test_a_clean_repository_is_a_root_with_its_commit(repository, state):
    head = repository.commit()

    found = state(repository)

    assert (found.is_root, found.head, found.dirty, found.problem) == (True, head, False, None)


@pytest.mark.parametrize("change", ["edit", "new", "delete", "stage"])
def test_any_change_makes_it_dirty(repository, state, change):
    repository.commit()
    if change == "delete":
        (repository.path / "hello.txt").unlink()
    else:
        repository.write("new.txt" if change == "new" else "hello.txt", b"changed\n")
    if change == "stage":
        repository.git("add", "-A")

    assert state(repository).dirty


def test_an_ignored_file_is_no_change(repository, state):
    repository.write(".gitignore", b"*.log\n")
    repository.commit()
    repository.write("x.log", b"")

    assert not state(repository).dirty


def test_a_repository_without_a_commit_says_so(repository, state):
    found = state(repository)

    assert (found.is_root, found.head, found.problem) == (True, None, "it has no commit yet")


def test_a_folder_below_a_repository_is_no_root(repository, git, job_image):
    repository.write("below/file", b"")
    repository.commit()
    repository.give_away()

    found = git.state(opened(repository.path / "below"), image=job_image)

    assert (found.is_root, found.head) == (False, None)
    assert "no .git" in found.problem


def test_a_worktree_is_explained(repository, state, tmp_path):
    repository.commit()
    repository.git("worktree", "add", "-q", str(tmp_path / "tree"))
    repository.path = tmp_path / "tree"

    found = state(repository)

    assert not found.is_root
    assert "its .git is a file that leads to a repository outside" in found.problem


def test_borrowed_objects_are_explained(repository, state, tmp_path):
    repository.commit()
    repository.git("clone", "-q", "--shared", ".", str(tmp_path / "clone"))
    repository.path = tmp_path / "clone"

    found = state(repository)

    assert (found.is_root, found.head) == (True, None)
    assert "borrowed" in found.problem


MARKER = "touch /workspace/marker /workspace/.git/marker /tmp/marker 2>/dev/null; date >>/proc/1/fd/2"
HOSTILE = f"""
[core]
    fsmonitor = "{MARKER}; false"
    hooksPath = hooks
    pager = "{MARKER}"
    sshCommand = "{MARKER}"
    editor = "{MARKER}"
    attributesFile = .git/attributes
[filter "evil"]
    clean = "{MARKER}; echo PWNED-$(id -u) >&2; cat"
    smudge = "{MARKER}; cat"
[filter "process"]
    process = "{MARKER}"
[diff "evil"]
    textconv = "{MARKER}; cat"
    command = "{MARKER}"
[diff]
    external = "{MARKER}"
[alias]
    status = "!{MARKER}"
    rev-parse = "!{MARKER}"
    diff = "!{MARKER}"
[include]
    path = evil-config
[pager]
    status = "{MARKER}"
    diff = "{MARKER}"
[credential]
    helper = "!{MARKER}"
"""


def turn_hostile(repository):
    """Commit what there is; then, whatever git can be told to run, it is told to run. No git on the host after this."""
    repository.write(".gitattributes", b"*.txt filter=evil diff=evil\n")
    head = repository.commit()
    hook = f"#!/bin/sh\n{MARKER}\n".encode()
    for name in ("post-index-change", "fsmonitor-watchman", "pre-commit", "post-checkout"):
        repository.write(f".git/hooks/{name}", hook).chmod(0o755)
        repository.write(f"hooks/{name}", hook).chmod(0o755)
    with (repository.path / ".git" / "config").open("a") as config:
        config.write(HOSTILE)
    repository.write(".git/evil-config", f'[core]\n fsmonitor = "{MARKER}"\n'.encode())
    repository.write("hello.txt", b"HELLO\n")
    return head


@pytest.fixture
def hostile(repository):
    """The repository, and its commit."""
    head = turn_hostile(repository)
    return repository, head


def listing(path):
    return sorted(
        (str(entry.relative_to(path)), entry.lstat().st_mtime_ns, entry.lstat().st_ino)
        for entry in path.rglob("*")
    )


def test_a_hostile_configuration_leaves_no_marker_on_the_host(hostile, state, diff, tmp_path):
    repository, head = hostile
    repository.give_away()
    before = listing(tmp_path)

    found = state(repository)
    changed = diff(repository, head)

    assert listing(tmp_path) == before
    assert not os.path.lexists("/tmp/marker")
    assert (found.is_root, found.head, found.dirty) == (True, head, True)
    assert b"+HELLO" in changed


def test_a_filter_would_have_run_on_the_host(repository):
    # Else the test above shows nothing.
    marker = repository.path / "ran"
    repository.write(".gitattributes", b"*.txt filter=evil\n")
    repository.commit()
    repository.git("config", "filter.evil.clean", f"touch '{marker}'; cat")
    repository.write("hello.txt", b"HELLO\n")

    repository.git("status", "--porcelain")

    assert marker.exists()


def test_a_filter_of_the_repository_runs_nowhere(hostile, state, diff, tmp_path):
    # In the box too: this one would end git with an error.
    repository, head = hostile
    repository.write(".gitattributes", b"*.txt filter=process\n")
    repository.give_away()
    before = listing(tmp_path)

    found = state(repository)
    changed = diff(repository, head)

    assert listing(tmp_path) == before
    assert (found.dirty, found.problem) == (True, None)
    assert b"+HELLO" in changed


def test_git_that_hangs_is_ended(repository, engine, installation, mounts, job_image, boxes):
    repository.commit()
    (repository.path / ".git/info/exclude").unlink(missing_ok=True)
    os.mkfifo(repository.path / ".git/info/exclude")  # whoever opens it waits for a writer
    repository.give_away()
    git = DockerGitBox(engine, installation=installation, mounts=mounts, seconds=1)
    begin = time.monotonic()

    found = git.state(opened(repository.path), image=job_image)

    assert found.problem == "git did not answer within 1 s"
    assert time.monotonic() - begin < 5 * slowness()
    assert list(boxes.ours(installation)) == []


def test_a_diff_shows_edits_exactly_and_names_new_files(repository, diff):
    repository.write("latin.txt", b"caf\xe9\n")
    head = repository.commit()
    repository.write("hello.txt", b"hello\nworld\n")
    repository.write("latin.txt", b"th\xe9\n")
    repository.write("new\nname", b"")

    changed = diff(repository, head)

    assert b"\n+world\n" in changed
    assert b"-caf\xe9\n+th\xe9\n" in changed
    assert b'not tracked by git:\n  "new\\nname"\n' in changed


def test_a_diff_spans_the_commits_since(repository, diff):
    first = repository.commit()
    repository.write("hello.txt", b"hello again\n")
    repository.commit()

    assert b"+hello again" in diff(repository, first)


def test_a_huge_diff_is_visibly_cut(repository, diff):
    head = repository.commit()
    repository.write("hello.txt", b"0123456789abcdef\n" * 200_000)

    changed = diff(repository, head)

    assert MIB < len(changed) < MIB + 100
    assert changed.endswith(b"\n[cut: only the first 1048576 bytes are shown]\n")


def test_a_commit_that_is_none_is_refused(repository, diff):
    repository.commit()

    with pytest.raises(BoxFault, match="cannot compare"):
        diff(repository, "0" * 40)
    for words in ("--output=/workspace/x", "HEAD", "", "0" * 39):
        with pytest.raises(BoxFault, match="not the name of a commit"):
            diff(repository, words)


@pytest.fixture
def skills(git, job_image, boxes, installation):
    def ask(repository, commit, *flows):
        repository.give_away()
        found = git.skills(opened(repository.path), commit=commit, flows=flows, image=job_image)
        assert list(boxes.ours(installation)) == []
        return found

    return ask


ALLOW, DENY = b"---\nai-trigger: allow\n---\n", b"---\nai-trigger: deny-\n---\n"


def a_skill(repository, flow, content):
    return repository.write(f".pi/skills/{flow}/SKILL.md", content)


def test_a_skill_is_read_as_it_was_at_the_commit(repository, skills):
    a_skill(repository, "review", DENY)
    a_skill(repository, "deploy", ALLOW)
    before = repository.commit()
    a_skill(repository, "review", ALLOW)
    a_skill(repository, "later", ALLOW)
    after = repository.commit()
    a_skill(repository, "never", ALLOW)

    flows = ("review", "deploy", "later", "never")
    assert skills(repository, before, *flows) == {"review": DENY, "deploy": ALLOW}
    assert skills(repository, after, *flows) == {"review": ALLOW, "deploy": ALLOW, "later": ALLOW}
    assert skills(repository, "0" * 40, *flows) == {}


def test_skills_are_read_out_of_packs(repository, skills):
    a_skill(repository, "review", ALLOW)
    commit = repository.commit()
    repository.git("gc", "-q", "--aggressive", "--prune=now")

    assert skills(repository, commit, "review") == {"review": ALLOW}


def test_a_skill_that_is_a_link_or_a_program_or_huge_is_none(repository, skills):
    real = a_skill(repository, "real", ALLOW)
    a_skill(repository, "program", ALLOW).chmod(0o755)
    (repository.path / ".pi/skills/linked").mkdir()
    (repository.path / ".pi/skills/linked/SKILL.md").symlink_to(real)
    (repository.path / ".pi/skills/whole").symlink_to(real.parent)
    a_skill(repository, "z-huge", ALLOW + bytes(9 * MIB))
    commit = repository.commit()

    found = skills(repository, commit, "real", "program", "linked", "whole", "z-huge")

    assert found == {"real": ALLOW}


def test_a_forged_object_under_the_real_ones_name_vouches_for_nothing(repository, skills):
    a_skill(repository, "review", DENY)
    commit = repository.commit()
    blob = repository.git("rev-parse", "HEAD:.pi/skills/review/SKILL.md")
    loose = repository.path / ".git/objects" / blob[:2] / blob[2:]
    loose.chmod(0o644)
    loose.write_bytes(zlib.compress(b"blob %d\0" % len(ALLOW) + ALLOW))
    shown = repository.git("cat-file", "blob", blob)

    assert "allow" in shown  # git itself is taken in
    assert skills(repository, commit, "review") == {}


@pytest.mark.parametrize("what", ["HEAD", "HEAD^{tree}", "HEAD:.pi/skills/review/SKILL.md"])
def test_a_replacement_vouches_for_nothing(repository, skills, what):
    a_skill(repository, "review", DENY)
    commit = repository.commit()
    real = repository.git("rev-parse", what)
    a_skill(repository, "review", ALLOW)
    repository.commit()
    repository.git("replace", real, repository.git("rev-parse", what))

    assert skills(repository, commit, "review") == {"review": DENY}


def test_a_hostile_configuration_runs_nothing_when_a_skill_is_read(repository, skills):
    a_skill(repository, "review", ALLOW)
    commit = turn_hostile(repository)

    assert skills(repository, commit, "review") == {"review": ALLOW}
    assert not os.path.lexists("/tmp/marker")


@pytest.mark.parametrize("commit", ["HEAD", "main", "", "0" * 39, "--help", "0" * 40 + "^"])
def test_only_the_full_name_of_a_commit_is_asked_about(repository, skills, commit):
    repository.commit()

    with pytest.raises(BoxFault, match="not the name of a commit"):
        skills(repository, commit, "review")


def test_an_image_without_git_is_said(repository, git, engine, installation):
    tag = f"pidispatch-test-empty-{installation}"
    engine.api.import_image_from_data(bytes(10240), repository=tag, tag="1")
    try:
        with pytest.raises(EntrypointMissing):
            git.state(opened(repository.path), image=f"{tag}:1")
    finally:
        engine.api.remove_image(f"{tag}:1", force=True)


def test_a_missing_image_is_said(repository, git):
    with pytest.raises(ImageMissing):
        git.state(opened(repository.path), image="pidispatch-no-such-image:1")


def test_only_boxes_that_were_left_behind_are_swept(git, boxes, installation, job_image):
    now = int(time.time())
    labels = {LABEL_INSTALLATION: installation, LABEL_ROLE: ROLE_GIT}
    boxes.create(a_box(installation, job_image, "true", labels=labels | {LABEL_BORN: str(now - 120)}))
    young = boxes.create(a_box(installation, job_image, "true", labels=labels | {LABEL_BORN: str(now)}))
    job = boxes.create(a_box(installation, job_image, "true"))

    assert git.sweep() == 1
    assert {box.container_id for box in boxes.ours(installation)} == {young, job}
