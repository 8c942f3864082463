"""See a box's first instruction: the moment a file appears in a mounted folder."""

import contextlib
import ctypes
import io
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import docker

FIRST = ".first"
TAG = "pi-job-bench:latest"
OWNER = 1000
PATIENCE = 30.0
SETTLE = 0.5  # seconds of quiet before the next box
_CREATE, _CLOEXEC = 0x100, 0o2000000
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def marked_image(job_image: str) -> Iterator[str]:
    """The real image, whose entrypoint first leaves a file and then becomes the real runner."""
    api = docker.APIClient(version="auto")
    real = api.inspect_image(job_image)["Config"]["Entrypoint"]
    entrypoint = ["/bin/sh", "-c", f': >/workspace/{FIRST}; exec "$@"', "sh", *real]
    recipe = f"FROM {job_image}\nENTRYPOINT {json.dumps(entrypoint)}\n"
    for line in api.build(fileobj=io.BytesIO(recipe.encode()), tag=TAG, rm=True, decode=True):
        if "error" in line:
            raise SystemExit(f"cannot build {TAG}: {line['error']}")
    try:
        yield TAG
    finally:
        api.remove_image(TAG, force=True)
        api.close()


class Site:
    """A git repository to work in, and other folders to mount, owned by the user the box runs as."""

    def __init__(self, root: Path) -> None:
        root.mkdir(mode=0o711, parents=True, exist_ok=True)
        self.root, self.folder = root, root / "repository"
        self.folder.mkdir()
        (self.folder / "hello.txt").write_text("hello world\n")
        identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for step in ("init -q -b main", "add -A", "commit -q -m first"):
            subprocess.run(["git", *identity, *step.split()], cwd=self.folder, check=True)
        self.uid = os.geteuid() or OWNER
        self.give(self.folder)

    def give(self, path: Path) -> None:
        if os.geteuid() == 0:
            for each in (path, *path.rglob("*")):
                os.lchown(each, self.uid, self.uid)

    @contextlib.contextmanager
    def watched(self) -> Iterator["Watch"]:
        """Forget an earlier first instruction and look for the next."""
        (self.folder / FIRST).unlink(missing_ok=True)
        watch = Watch(self.folder)
        try:
            yield watch
        finally:
            watch.close()


class Watch:
    """An inotify watch on one folder, set when it is made."""

    def __init__(self, folder: Path) -> None:
        self._descriptor = _libc.inotify_init1(_CLOEXEC)
        if _libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _CREATE) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")

    def seen(self) -> float:
        """Wait for the first instruction; seconds since 1970."""
        end = time.monotonic() + PATIENCE
        while select.select([self._descriptor], [], [], max(0, end - time.monotonic()))[0]:
            moment = time.time()
            if FIRST.encode() in os.read(self._descriptor, 65536):
                return moment
        raise SystemExit(f"no box made {FIRST} within {PATIENCE:g} s")

    def close(self) -> None:
        os.close(self._descriptor)
