"""The reference's way: BullMQ from npm on the same Valkey, three INCRs, `docker run` by CLI."""

import json
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from sides.marker import SETTLE, Site

BULLMQ = "bullmq@5"


class NotThere(Exception):
    """Something this side needs is not on this machine."""


class Reference:
    """Its container has no network here either; its own default, a bridge, costs it about 80 ms more."""

    def __init__(self, site: Site, image: str, redis_url: str, before: Callable[[Site], None]) -> None:
        self._site, self._before = site, before
        self._prefix = f"pi-job-reference-{secrets.token_hex(4)}"
        for program in ("node", "npm", "docker"):
            if shutil.which(program) is None:
                raise NotThere(f"{program} is not installed")
        program = site.root / "program"
        program.mkdir()
        (program / "package.json").write_text('{"private": true, "type": "module"}')
        shutil.copy(Path(__file__).with_name("reference.mjs"), program)
        install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", BULLMQ]
        try:
            subprocess.run(install, cwd=program, check=True, capture_output=True, timeout=120)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise NotThere(f"npm cannot install {BULLMQ}: {error}") from error
        package = json.loads((program / "node_modules" / "bullmq" / "package.json").read_text())
        self.name = f"reference (BullMQ {package['version']}, docker CLI)"
        for folder in ("outbox", "jobs"):
            (site.root / folder).mkdir()
        site.give(site.root / "outbox")
        (program / "settings.json").write_text(json.dumps(self._settings(image, redis_url)))
        self._program = program

    def _settings(self, image: str, redis_url: str) -> dict[str, Any]:
        url = urlsplit(redis_url)
        if url.scheme != "unix":
            raise NotThere("it expects Valkey on a unix socket")
        return {
            "socket": unquote(url.path),
            "nonce": self._prefix.rpartition("-")[2],
            "image": image,
            "uid": self._site.uid,
            "jobs": str(self._site.root / "jobs"),
            "folder": str(self._site.folder),
            "outbox": str(self._site.root / "outbox"),
            "files": {"prompt.md": "say hello", "event.json": "{}"},
            "env": {"PI_PROVIDER": "scripted", "PI_MODEL": "happy", "PI_MAX_TURNS": "30", "PI_OFFLINE": "1"},
        }

    def __enter__(self) -> Self:
        self._node = subprocess.Popen(
            ["node", "reference.mjs", "settings.json"],
            cwd=self._program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._heard("ready")
        return self

    def __exit__(self, *_: object) -> None:
        with self._node:  # closes its pipes and waits: the program ends with its input
            pass

    def _heard(self, word: str) -> Any:
        assert self._node.stdout is not None
        for line in self._node.stdout:
            said = json.loads(line)
            if "failed" in said:
                raise SystemExit(f"the reference failed: {said}")
            if word in said:
                return said[word]
        raise SystemExit("the reference's program ended")

    def measure(self, number: int) -> float:
        assert self._node.stdin is not None
        self._before(self._site)
        with self._site.watched() as watch:
            self._node.stdin.write(f"{number}\n")
            self._node.stdin.flush()
            first = watch.seen()
        asked: float = self._heard("asked")
        subprocess.run(["docker", "rm", "-f", f"{self._prefix}-{number}"], capture_output=True, check=False)
        self._heard("done")
        time.sleep(SETTLE)
        return (first - asked) * 1000
