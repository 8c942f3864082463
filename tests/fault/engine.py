"""The Docker engine of a house: the machine's own, or a private one that may be killed; and its event log."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from pidispatch.domain.box.sandbox import LABEL_ATTEMPT, LABEL_INSTALLATION, LABEL_ROLE, LABEL_RUN, ROLE_JOB
from tests.support.image import IMAGE


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the engine's log about a job's container."""

    at: int
    action: str
    container: str
    run: int
    attempt: int
    exit_code: int | None


class Engine:
    """The machine's own engine. Its event log is the witness: no code of the project takes part in it."""

    host: str | None = None

    def __init__(self) -> None:
        self._follower: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        return {} if self.host is None else {"DOCKER_HOST": self.host}

    def poll(self) -> int | None:
        return None

    def start(self) -> None:
        """Nobody kills the machine's own engine."""

    def docker(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["docker", *arguments],
            env=os.environ | self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, f"docker {arguments}: {done.stderr}"
        return done.stdout

    def answers(self) -> bool:
        return self.poll() is None

    def containers(self, installation: str) -> list[str]:
        label = f"label={LABEL_INSTALLATION}={installation}"
        return self.docker("ps", "-a", "--filter", label, "--format", "{{.Names}} {{.Status}}").splitlines()

    def forgotten(self, *, begun: bool) -> list[str]:
        """Boxes that the engine no longer knows and whose processes are there; nobody kills the machine's own engine.

        Not `begun`: an engine that was killed in the middle of a start leaves runc waiting, for ever, before the box's
        program. Nothing of ours has run in it, and Docker offers no way to it.
        """
        return []

    def remove_all(self, installation: str) -> None:
        self._installation = None
        label = f"label={LABEL_INSTALLATION}={installation}"
        found = self.docker("ps", "-aq", "--filter", label, check=False).split()
        if found:
            self.docker("rm", "-f", *found, check=False)

    def follow(self, installation: str, file: Path) -> None:
        """Keep the engine's log of this installation's containers in a file, whatever happens to the engine."""
        self._installation, self._file = installation, file
        self._since = str(int(time.time()) - 1)
        file.touch()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        label = f"label={LABEL_INSTALLATION}={self._installation}"
        asked = ["docker", "events", "--since", self._since, "--filter", label, "--filter", "type=container"]
        while self._installation is not None:
            with self._file.open("ab") as out:
                process = subprocess.Popen(
                    [*asked, "--format", "{{json .}}"],
                    env=os.environ | self.environment(),
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                )
                while process.poll() is None and self._installation is not None:
                    time.sleep(0.1)
                process.kill()
                process.wait()

    def events(self, run_id: int) -> list[Event]:
        """What the engine logged of one run, once each, in order."""
        found = {}
        for line in self._file.read_text().splitlines():
            said = json.loads(line)
            event = _event(said)
            if event is not None and event.run == run_id:
                found[event.at, event.container, event.action] = event
        return sorted(found.values(), key=lambda event: event.at)


def _event(said: dict[str, Any]) -> Event | None:
    actor = said.get("Actor", {})
    labels = actor.get("Attributes", {})
    if labels.get(LABEL_ROLE) != ROLE_JOB or said.get("Action") not in {"create", "start", "die", "destroy"}:
        return None
    code = labels.get("exitCode")
    return Event(
        at=int(said["timeNano"]),
        action=said["Action"],
        container=actor["ID"],
        run=int(labels[LABEL_RUN]),
        attempt=int(labels[LABEL_ATTEMPT]),
        exit_code=None if code is None else int(code),
    )


class PrivateEngine(Engine):
    """A dockerd of our own, with another root, socket and no network; `live_restore`, read at each
    start, keeps boxes over its death."""

    def __init__(self, folder: Path, *, live_restore: bool) -> None:
        super().__init__()
        self.folder, self.live_restore = folder, live_restore
        self.host = f"unix://{folder}/docker.sock"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return when it answers."""
        if self._process is not None:
            self._process.wait()
        self._end_leftover()
        self._await_containerd()
        command = [
            "dockerd",
            "--data-root",
            str(self.folder / "data"),
            "--exec-root",
            str(self.folder / "exec"),
        ]
        command += ["--pidfile", str(self.folder / "docker.pid"), "--host", str(self.host)]
        command += ["--bridge=none", "--iptables=false", f"--live-restore={str(self.live_restore).lower()}"]
        with (self.folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + 30
        while subprocess.run(
            ["docker", "version"], env=os.environ | self.environment(), capture_output=True, check=False
        ).returncode:
            assert self._process.poll() is None, "dockerd does not start"
            assert time.monotonic() < end, "dockerd does not answer"
            time.sleep(0.1)

    def _end_leftover(self) -> None:
        """A dockerd of a harness that was killed still has the directory."""
        pid_file = self.folder / "docker.pid"
        if pid_file.exists():
            pid = pid_file.read_text().strip()
            command = Path("/proc", pid, "cmdline")
            if command.exists() and str(self.folder) in command.read_text():
                os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.5)
        pid_file.unlink(missing_ok=True)

    def _await_containerd(self) -> None:
        """It dies with dockerd, a moment later; a new dockerd would wait for the old one until it gives up."""
        pid_file = self.folder / "exec" / "containerd" / "containerd.pid"
        end = time.monotonic() + 5
        while pid_file.exists() and time.monotonic() < end:
            state = Path("/proc", pid_file.read_text().strip(), "stat")
            try:
                if state.read_text().rpartition(")")[2].split()[0] == "Z":
                    break
            except (FileNotFoundError, ProcessLookupError):
                break
            time.sleep(0.05)
        pid_file.unlink(missing_ok=True)

    def load(self) -> None:
        """Bring the job image from the machine's engine, once for each data directory."""
        if self.docker("images", "-q", IMAGE).strip():
            return
        with subprocess.Popen(["docker", "save", IMAGE], stdout=subprocess.PIPE) as save:
            environment = os.environ | self.environment()
            subprocess.run(
                ["docker", "load", "-q"], stdin=save.stdout, env=environment, check=True, capture_output=True
            )

    def _shims(self) -> Iterator[psutil.Process]:
        """The parents of its boxes. A dockerd that is killed while it starts one may leave an empty one behind."""
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                command = " ".join(process.cmdline())
                if "containerd-shim" in command and f"{self.folder}/exec/" in command:
                    yield process

    def forgotten(self, *, begun: bool) -> list[str]:
        known = set(self.docker("ps", "-q", "--no-trunc").split())
        found = []
        for shim in self._shims():
            with suppress(psutil.NoSuchProcess):
                inside = [child.cmdline() for child in shim.children(recursive=True)]
                if inside and not known & set(shim.cmdline()) and begun == (inside != [["runc", "init"]]):
                    found.append(f"a box that Docker forgot, with {inside}")
        return found

    def poll(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End dockerd; the containerd that it started ends with it."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for shim in self._shims():
            for process in (shim, *shim.children(recursive=True)):
                process.kill()
