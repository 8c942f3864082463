"""A file at a commit is proven by git's hashes, or it is not there."""

import hashlib
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.box.gitobjects import file_at, objects_of

PATH = (b".pi", b"skills", b"review", b"SKILL.md")
NAMES = ("", "^{tree}", ":.pi", ":.pi/skills", ":.pi/skills/review", ":.pi/skills/review/SKILL.md")


class Store:
    """Objects as git makes them, and what `cat-file --batch` would print of them."""

    def __init__(self, algorithm="sha1"):
        self.algorithm, self.printed = algorithm, b""

    def add(self, kind, content, *, say_name=None):
        whole = f"{kind} {len(content)}\0".encode() + content
        name = hashlib.new(self.algorithm, whole).hexdigest()
        self.printed += f"{say_name or name} {kind} {len(content)}\n".encode() + content + b"\n"
        return name

    def tree(self, *entries):
        return self.add(
            "tree", b"".join(b"%s %s\0" % (mode, name) + bytes.fromhex(oid) for mode, name, oid in entries)
        )

    def commit_of(self, mode=b"100644", content=b"text", directory=b"40000"):
        blob = self.add("blob", content)
        oid = self.tree((b"100644", b"OTHER", blob), (mode, PATH[-1], blob))
        for part in reversed(PATH[:-1]):
            oid = self.tree((b"100644", b"a", blob), (directory, part, oid))
        return self.add("commit", b"tree " + oid.encode() + b"\nauthor a\n\nmessage\n")


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
@pytest.mark.parametrize("content", [b"text", b"", b"\n" * 5, b"0" * 40 + b" blob 3\nabc\n"])
def test_a_plain_file_is_found_by_its_path(algorithm, content):
    store = Store(algorithm)
    commit = store.commit_of(content=content)

    assert file_at(objects_of(store.printed, commit), commit, PATH) == content


@pytest.mark.parametrize("mode", [b"100755", b"120000", b"160000", b"40000", b"100664", b"0100644"])
def test_any_other_mode_is_no_file(mode):
    store = Store()
    commit = store.commit_of(mode=mode)

    assert file_at(objects_of(store.printed, commit), commit, PATH) is None


@pytest.mark.parametrize("directory", [b"120000", b"160000", b"100644"])
def test_a_link_on_the_way_is_no_directory(directory):
    store = Store()
    commit = store.commit_of(directory=directory)

    assert file_at(objects_of(store.printed, commit), commit, PATH) is None


def test_another_content_under_the_name_of_the_real_one_is_not_believed():
    store = Store()
    commit = store.commit_of(content=b"deny!")
    forged = store.printed.replace(b"deny!", b"allow")

    assert file_at(objects_of(forged, commit), commit, PATH) is None


def test_a_commit_that_was_swapped_is_not_believed():
    real, forged = Store(), Store()
    commit = real.commit_of(content=b"deny")
    forged.commit_of(content=b"allow")

    assert file_at(objects_of(forged.printed, commit), commit, PATH) is None


def test_a_cut_or_missing_object_is_no_answer():
    store = Store()
    commit = store.commit_of()

    for end in range(len(store.printed) - 1):
        assert file_at(objects_of(store.printed[:end], commit), commit, PATH) is None


def test_lines_about_missing_objects_are_passed_over():
    store = Store()
    store.printed += b"0123:.pi missing\n"
    commit = store.commit_of()

    assert file_at(objects_of(store.printed, commit), commit, PATH) == b"text"


@given(st.binary(max_size=2000))
def test_no_answer_raises(batch):
    assert file_at(objects_of(batch, "a" * 40), "a" * 40, PATH) is None


@given(st.binary(max_size=300))
def test_no_tree_raises(content):
    store = Store()
    tree = store.add("tree", content)
    commit = store.add("commit", b"tree " + tree.encode() + b"\n")

    file_at(objects_of(store.printed, commit), commit, PATH)


def test_what_git_itself_makes_is_understood(tmp_path):
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}

    def git(*arguments, given=None):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, env=quiet, check=True, capture_output=True, input=given
        ).stdout

    git("init", "-q")
    skill = tmp_path / ".pi/skills/review/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_bytes(b"---\nai-trigger: allow\n---\n")
    git("add", "-A")
    git("commit", "-qm", "x")
    commit = git("rev-parse", "HEAD").decode().strip()
    asked = "".join(f"{commit}{name}\n" for name in NAMES).encode()

    objects = objects_of(git("cat-file", "--batch", given=asked), commit)

    assert file_at(objects, commit, PATH) == skill.read_bytes()
    assert file_at(objects, commit, (*PATH[:-1], b"OTHER.md")) is None
