"""Make a sample repository for a demonstration, and show what a run changed in it."""

import os
import secrets
import subprocess
from functools import partial
from pathlib import Path

from pidispatch.app.installation import Installation, home_of
from pidispatch.config import Settings
from pidispatch.runtime.erase import erase
from pidispatch.runtime.workspace import open_folder
from pidispatch.store.hosts.hosts import Hosts

OWNER = 1000  # the job runs as the folder's owner, which is never root
FIRST_COMMIT = ("init -q -b main", "add -A", "commit -q -m first")


def make_sample(settings: Settings) -> tuple[Path, str]:
    """A fresh repository and its first commit; what earlier demonstrations left is removed."""
    parent = home_of(settings).root / "samples"
    parent.mkdir(mode=0o755, exist_ok=True)
    for earlier in sorted(path.name for path in parent.iterdir()):
        erase(parent, earlier)
    sample = (
        parent / f"sample-{secrets.token_hex(3)}"
    )  # another name: another run, also within the same minute
    sample.mkdir()
    (sample / "hello.txt").write_text("hello world\n", encoding="utf-8")
    for step in FIRST_COMMIT:
        _git(sample, *step.split())
    first = _git(sample, "rev-parse", "HEAD")
    if os.geteuid() == 0:
        for path in (sample, *sample.rglob("*")):
            os.lchown(path, OWNER, OWNER)
    return sample, first


def _git(sample: Path, *arguments: str) -> str:
    """Git on the host, and only here: no agent has been in this folder yet."""
    identity = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.defpath}
    for who in ("AUTHOR", "COMMITTER"):
        identity |= {f"GIT_{who}_NAME": "pidispatch", f"GIT_{who}_EMAIL": "demo@localhost"}
    done = subprocess.run(
        ["git", *arguments], cwd=sample, env=identity, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def changes(here: Installation, folder: Path, since: str) -> str:
    """The difference between the folder and a commit, asked of git in a box."""
    hosts = Hosts(here.database, host=here.host)
    installation = hosts.installation(capacity=here.settings.concurrency)
    look = partial(open_folder, worker_uid=os.geteuid())
    found = look(os.fsencode(folder))
    diff = here.runtime().git_box(installation).diff(found, since=since, image=here.settings.job_image)
    return diff.decode(errors="replace")
