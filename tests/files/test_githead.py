"""The commit of a folder is read from its files, and nothing there leads elsewhere."""

import os
import subprocess

import pytest

from pidispatch.files.githead import head_commit

QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}
OTHER = "b" * 40


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "repo"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    git(made, "commit", "-q", "--allow-empty", "-m", "x")
    return made


def git(folder, *arguments):
    who = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=QUIET, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_branch_a_detached_head_and_packed_references_are_read(folder):
    commit = git(folder, "rev-parse", "HEAD")
    assert head_commit(str(folder)) == commit

    git(folder, "tag", "-a", "-m", "t", "v1")
    git(folder, "checkout", "-q", "-b", "feature/deep/ünï")
    assert head_commit(str(folder)) == commit

    git(folder, "pack-refs", "--all")
    assert head_commit(str(folder)) == commit

    git(folder, "checkout", "-q", "--detach")
    assert head_commit(str(folder)) == commit


def test_a_loose_reference_wins_over_a_packed_one(folder):
    git(folder, "pack-refs", "--all")
    git(folder, "commit", "-q", "--allow-empty", "-m", "y")

    assert head_commit(str(folder)) == git(folder, "rev-parse", "HEAD")


def test_a_sha256_repository_is_read(tmp_path):
    git(tmp_path, "init", "-q", "--object-format=sha256")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")

    found = head_commit(str(tmp_path))

    assert found == git(tmp_path, "rev-parse", "HEAD")
    assert len(found) == 64


def test_no_repository_and_no_commit_are_none(tmp_path):
    assert head_commit(str(tmp_path)) is None
    assert head_commit(str(tmp_path / "gone")) is None
    assert head_commit("nul\0") is None

    git(tmp_path, "init", "-q")
    assert head_commit(str(tmp_path)) is None


@pytest.mark.parametrize(
    "head",
    [
        "ref: refs/../../outside",
        "ref: ../outside",
        "ref: /etc/passwd",
        "ref: HEAD",
        "ref: refs/heads/\x01",
        "ref: refs//main",
        "a" * 39,
        "a" * 41,
        "",
        "x" * 5000,
    ],
)
def test_a_head_that_leads_astray_is_none(folder, head):
    (folder / "outside").write_text(OTHER)
    (folder.parent / "outside").write_text(OTHER)
    (folder / ".git/HEAD").write_text(head)

    assert head_commit(str(folder)) is None


def test_references_that_go_round_are_given_up(folder):
    (folder / ".git/refs/heads/a").write_text("ref: refs/heads/b\n")
    (folder / ".git/refs/heads/b").write_text("ref: refs/heads/a\n")
    (folder / ".git/HEAD").write_text("ref: refs/heads/a\n")

    assert head_commit(str(folder)) is None


@pytest.mark.parametrize("place", [".git", ".git/HEAD", ".git/refs", ".git/refs/heads/main"])
def test_no_link_is_followed(folder, tmp_path, place):
    path = folder / place
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)

    assert head_commit(str(folder)) is None


@pytest.mark.parametrize("place", [".git/HEAD", ".git/refs/heads/main"])
def test_a_pipe_is_not_waited_for(folder, place):
    (folder / place).unlink()
    os.mkfifo(folder / place)

    assert head_commit(str(folder)) is None
