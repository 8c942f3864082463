"""What of the owner's own git is heeded, and what of it is left alone."""

import os

import pytest

from pidispatch.runtime import ownergit
from pidispatch.runtime.ownergit import MOST_BYTES, NOBODY, owner_view

STRANGER = 54321  # without an account


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(ownergit, "SYSTEM", tmp_path / "no-system-file")
    (tmp_path / ".config/git").mkdir(parents=True)
    return tmp_path


def seen(home, uid=None):
    return owner_view(os.geteuid() if uid is None else uid, {"HOME": str(home)})


def test_an_owner_who_set_nothing_up_changes_nothing(home):
    assert seen(home) == NOBODY


def test_the_usual_ignore_file_is_read(home):
    (home / ".config/git/ignore").write_text(".idea/\n")

    assert seen(home).ignore == b".idea/\n"
    assert seen(home, STRANGER).ignore == b".idea/\n"  # nobody else could have set anything up


def test_the_file_that_the_owner_names_is_read_instead(home):
    (home / ".config/git/ignore").write_text("not this\n")
    (home / "mine").write_text("*.log\n")
    (home / "more").write_text("[core]\n\texcludesFile = ~/mine\n\tautocrlf = input\n")
    (home / ".gitconfig").write_text("[include]\n\tpath = more\n[core]\n\teol = crlf\n")

    found = seen(home)

    assert found.ignore == b"*.log\n"
    assert dict(found.settings) == {"core.autocrlf": "input", "core.eol": "crlf"}


@pytest.mark.parametrize(
    "config",
    [
        '[filter "lfs"]\n clean = touch /tmp/ran\n',
        "[core]\n fsmonitor = touch /tmp/ran\n hooksPath = /tmp\n autocrlf = $(id)\n eol = lf\\n[alias]\n",
        "[include]\n path = .gitconfig\n",
    ],
)
def test_programs_and_unknown_words_are_left_out(home, config):
    (home / ".gitconfig").write_text(config)

    assert seen(home).settings == ()


@pytest.mark.parametrize("what", ["a link to another's file", "a queue", "a directory", "too long"])
def test_what_is_not_the_owners_file_is_not_read(home, what):
    ignore = home / ".config/git/ignore"
    match what:
        case "a link to another's file":
            if os.geteuid() != 0:
                pytest.skip("only root can give a file away")
            (home / "other").write_text("secret\n")
            os.chown(home / "other", STRANGER, STRANGER)
            (home / "other").chmod(0o600)
            ignore.symlink_to(home / "other")
        case "a queue":
            os.mkfifo(ignore)
        case "a directory":
            ignore.mkdir()
        case "too long":
            ignore.write_bytes(b"x" * (MOST_BYTES + 1))

    assert seen(home).ignore == b""
