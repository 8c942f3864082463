"""One whole installation: `pidispatch up` as a process of its own, a scripted provider, and the real command line."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import make_url, text

from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.services.home import Home
from pidispatch.store.database import Database
from tests.support.patience import LONGER

KEY = "sk-test-9f31c7d2a8e64b05"  # looks like a key; must never be seen outside the gateway's process
STORED_KEY = "sk-test-stored-by-pi-5d0c"
FORWARDED = "worth-hiding-from-docker-inspect"
OWNER = 12345 if os.geteuid() == 0 else os.geteuid()


class Installation:
    """`start`, `stop` and `kill` the whole; `pidispatch(...)` is the command line; `sql` reads records."""

    def __init__(self, root: Path, provider: ScriptedProvider) -> None:
        self.root = root
        self.home = root / "home"
        self.health = root / "health.sock"
        self.provider = provider
        self.lines: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._database: Database | None = None
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PIDISPATCH_HOME": str(self.home),
            "PIDISPATCH_HEALTH": f"unix:{self.health}",
            "PIDISPATCH_UPSTREAM_SCRIPTED": f"{provider.url}/v1",
            "PIDISPATCH_UPSTREAM_ANTHROPIC": provider.url,
            "SCRIPTED_API_KEY": KEY,
            "PIDISPATCH_UPSTREAM_OPENAI": f"{provider.url}/v1",
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_API_KEY": KEY,
            "OUR_BOX_KEY": KEY,
            "PIDISPATCH_PROVIDERS_FILE": str(self._providers_file()),
            "PI_CODING_AGENT_DIR": str(self._agent_dir()),
            "PI_FORWARD_ENV": "WORKED_WITH,NOT_SET",
            "WORKED_WITH": FORWARDED,
            "PI_PROVIDER": "scripted",
            "PI_MODEL": "happy",
            "PI_DAILY_CAP": "1000",
            "PIDISPATCH_PRICES_FILE": str(root / "prices.json"),
            **{name: os.environ[name] for name in ("DOCKER_HOST", "PI_JOB_IMAGE") if name in os.environ},
        }

        self.prices()

    def prices(self, **content: Any) -> None:
        """Write the prices file anew."""
        (self.root / "prices.json").write_text(json.dumps({"version": 1, **content}))

    def _providers_file(self) -> Path:
        figures = {"happy": {"contextWindow": 65_536, "maxTokens": 4_321}}
        ours = {"api": "openai-responses", "baseUrl": f"{self.provider.url}/v1", "key": "env:OUR_BOX_KEY"}
        theirs = {"baseUrl": f"{self.provider.url}/v1", "key": "pi"}
        keyless = {"baseUrl": f"{self.provider.url}/v1", "key": "none", "slots": 1}
        entries = {"our-box": {**ours, "slots": 2, "models": figures}, "groq": theirs, "open-box": keyless}
        path = self.root / "providers.json"
        path.write_text(json.dumps({"version": 1, "providers": entries}))
        return path

    def _agent_dir(self) -> Path:
        """pi's own folder on the host, with what its /login stores."""
        path = self.root / "pi-agent"
        path.mkdir(0o700)
        (path / "auth.json").touch(0o600)
        (path / "auth.json").write_text(json.dumps({"groq": {"type": "api_key", "key": STORED_KEY}}))
        return path

    def start(self, *arguments: str) -> None:
        self.arguments = arguments
        self.lines.clear()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pidispatch", "up", *arguments],
            env=self.environment,
            cwd=self.root,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        eventually(self._is_ready, "`up` is ready", seconds=120)

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "\n".join(self.lines)
        return any(line.startswith("ready in") for line in self.lines)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self.lines.append(line.decode(errors="replace").rstrip())

    def stop(self, signal_number: int = signal.SIGINT) -> int:
        assert self.process is not None
        self.close()
        self.process.send_signal(signal_number)
        return self.process.wait(90)

    def kill(self) -> list[psutil.Process]:
        """kill -9 of `up` alone; returns what had been its descendants."""
        assert self.process is not None
        self.close()
        descendants = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait(10)
        return descendants

    def processes(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def workers(self) -> list[psutil.Process]:
        """The worker's master and its processes."""
        return [process for process in self.processes() if "dramatiq" in _command(process)]

    def pidispatch(
        self, *arguments: str, check: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "pidispatch", *arguments],
            env=self.environment,
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
            **options,
        )
        assert not check or done.returncode == 0, (
            f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def run(self, folder: Path, *arguments: str, model: str = "happy", wait: bool = True) -> dict[str, Any]:
        """`pidispatch run … --json`; returns the run as it prints it."""
        command = ["run", str(folder), "--model", model, "--json", *arguments]
        if "--task" not in arguments and "--task-file" not in arguments:
            command += ["--task", f"work in {folder.name}"]
        done = self.pidispatch(*command, *(["--wait"] if wait else []), check=False)
        assert done.returncode in {0, 1}, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)["run"]
        return answer

    def ended(self, *public_ids: str) -> None:
        """Returns when these runs have ended."""
        left = "SELECT count(*) AS n FROM runs WHERE public_id = ANY(:ids) AND state <> 'ended'"
        eventually(lambda: self.one(left, ids=list(public_ids))["n"] == 0, "the runs end", seconds=120)

    def record(self, public_id: str) -> dict[str, Any]:
        return self.one(
            "SELECT outcome, reason, why, result, attempt, exit_code, turns, calls, tokens_in, tokens_out,"
            " tokens_cache_read, tokens_total FROM run_history WHERE public_id = :id",
            id=public_id,
        )

    def state(self, public_id: str) -> str:
        return str(self.one("SELECT state FROM runs WHERE public_id = :id", id=public_id)["state"])

    def one(self, statement: str, **values: Any) -> dict[str, Any]:
        (found,) = self.rows(statement, **values)
        return found

    def rows(self, statement: str, **values: Any) -> list[dict[str, Any]]:
        with self.database().transaction() as connection:
            return [dict(row) for row in connection.execute(text(statement), values).mappings()]

    def database(self) -> Database:
        """Where `up` keeps its records now: whoever asks again and again shares one connection."""
        urls = Home(self.home, self.home / "run").running_urls()
        assert urls is not None
        if self._database is None or self._database.url != make_url(urls.database):
            self.close()
            self._database = Database(urls.database, pool_size=1)
        return self._database

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def repository(self, name: str = "repo") -> Path:
        """A repository of one commit, owned by a user who is not root."""
        folder = self.root / "repos" / name
        folder.mkdir(parents=True)
        (folder / "hello.txt").write_text("hello world\n")
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        for step in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "first"]):
            subprocess.run(["git", *step], cwd=folder, check=True, capture_output=True)
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, OWNER, OWNER)
        return folder

    def used(self, folder: Path) -> dict[str, int]:
        """What the provider itself counted for the run in this folder, by its prompt."""
        marks = f"work in {folder.name}"
        usages = [asked.usage for asked in self.provider.asked if marks in str(asked.body) and asked.usage]
        return {
            "tokens_in": sum(usage.tokens_in for usage in usages),
            "tokens_out": sum(usage.tokens_out for usage in usages),
            "tokens_cache_read": sum(usage.cache_read for usage in usages),
        }


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


def eventually(holds: Callable[[], object], what: str, *, seconds: float = 30) -> None:
    deadline = time.monotonic() + LONGER * seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)


def every_file(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path
