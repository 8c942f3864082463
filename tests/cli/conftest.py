"""The real command line, in this process, on a database and a queue of the test's own."""

import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from pidispatch.entrypoints.cli import main
from pidispatch.ports import FolderState
from pidispatch.runtime.dockerruntime import DockerRuntime

HOST = "h1"
SOMEBODY = 12345
HEAD = "a" * 40


@dataclass(frozen=True)
class Said:
    """What a command left: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self):
        return json.loads(self.out)


class FakeGitBox:
    """`ports.GitBox`: every folder is a clean repository, but for what a test says."""

    def __init__(self):
        self.answer = FolderState(is_root=True, head=HEAD, dirty=False, problem=None)
        self.fault = None
        self.asked = []

    def state(self, folder, *, image):
        self.asked.append((folder.path, folder.uid, folder.gid, image))
        if self.fault is not None:
            raise self.fault
        return self.answer


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """An environment of nothing but a home, and a folder outside any repository to stand in."""
    for name in list(os.environ):
        if name.startswith(("PI_", "PIDISPATCH_", "DATABASE_", "REDIS_", "VALKEY_", "PG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIDISPATCH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIDISPATCH_RUN_DIR", "/tmp/pd-cli-no-such-run")
    monkeypatch.setenv("PI_WORKER_NAME", HOST)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.fixture
def command(bare, capfd):
    """`command("runs", "--json")` runs it and returns what it said."""

    def run(*arguments):
        capfd.readouterr()
        bare.setattr(sys, "argv", ["pidispatch", *arguments])
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        else:
            code = 0
        said = capfd.readouterr()
        return Said(code, said.out, said.err)

    yield run
    structlog.reset_defaults()


@pytest.fixture
def pidispatch(command, bare, database_url, redis_url):
    """The command line with services that answer."""
    bare.setenv("DATABASE_URL", database_url)
    bare.setenv("REDIS_URL", redis_url)
    return command


@pytest.fixture
def gitbox(monkeypatch):
    box = FakeGitBox()
    monkeypatch.setattr(DockerRuntime, "git_box", lambda *_: box)
    return box


@pytest.fixture
def folder():
    """A folder of somebody's, for whom a job could run."""
    path = Path(tempfile.mkdtemp(prefix="pd-folder-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
    yield path
    shutil.rmtree(path, ignore_errors=True)
