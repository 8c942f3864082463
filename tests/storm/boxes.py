"""Boxes that are small shell processes: they log their own start and end, and outlive the worker that started them."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.box.sandbox import LABEL_ATTEMPT, LABEL_RUN
from pidispatch.errors import NameTaken, PidispatchError

SCRIPT = """
printf 'start %s %s\\n' "$EPOCHREALTIME" $$ >>"$1"
read -rt "$2" <>"$3"
printf 'end %s\\n' "$EPOCHREALTIME" >>"$1"
"""


class StubBoxes:
    """`ports.Boxes` and `ports.BoxWatch` in a directory that all workers share.

    A box is the file `boxes/<id>`; `logs/<id>` is its own log, under a lock that lives exactly as long as its process.
    `give_go` is asked once the box has started, for as long as it could be given, as a real box waits at its door.
    """

    def __init__(
        self,
        root: Path,
        give_go: Callable[[int, int, str], bool],
        is_preparing: Callable[[int, int], bool],
        *,
        seconds: float,
    ) -> None:
        self._boxes, self._logs, self._never = root / "boxes", root / "logs", root / "never"
        self._give_go, self._is_preparing = give_go, is_preparing
        self._seconds = seconds
        self._children: list[subprocess.Popen] = []
        self._boxes.mkdir(exist_ok=True)
        self._logs.mkdir(exist_ok=True)
        with suppress(FileExistsError):
            os.mkfifo(self._never)  # a place to wait at without a process of its own

    def create(self, spec):
        container_id = hashlib.sha256(spec.name.encode()).hexdigest()
        draft = self._boxes.parent / f"draft-{os.getpid()}-{threading.get_ident()}"
        draft.write_text(json.dumps({"name": spec.name, "labels": dict(spec.labels)}))
        try:
            os.link(draft, self._boxes / container_id)
        except FileExistsError as error:
            raise NameTaken(spec.name) from error
        finally:
            draft.unlink()  # the box is the same file: another draft must not be written into it
        return container_id

    def start(self, container_id):
        labels = json.loads((self._boxes / container_id).read_text())["labels"]
        held = (self._logs / container_id).open("a")
        fcntl.flock(held, fcntl.LOCK_EX)
        run, attempt = int(labels[LABEL_RUN]), int(labels[LABEL_ATTEMPT])
        threading.Thread(
            target=self._run, args=(container_id, run, attempt, held, self._seconds), daemon=True
        ).start()

    def _run(self, container_id, run, attempt, held, seconds):
        with held:
            if not self._may_go(run, attempt, container_id[:12]):
                held.write("nogo\n")
                return
            command = ["bash", "-c", SCRIPT, container_id, held.name, str(seconds), str(self._never)]
            child = subprocess.Popen(command, pass_fds=[held.fileno()], start_new_session=True)
        self._children = [other for other in [*self._children, child] if other.poll() is None]

    def _may_go(self, run, attempt, container):
        preparing = True
        try:
            while not self._give_go(run, attempt, container):
                if not preparing:
                    return False
                time.sleep(0.005)
                preparing = self._is_preparing(run, attempt)
        except PidispatchError:
            return False
        return True

    def wait(self, container_id):
        """Until the box has ended."""
        with (self._logs / container_id).open() as log:
            fcntl.flock(log, fcntl.LOCK_SH)

    def stop(self, container_id, *, grace):
        raise AssertionError("nothing here is ever stopped")

    def remove(self, container_id):
        state = self.inspect(container_id)
        if state is not None and state.status == "running":
            started = (self._logs / container_id).read_text().split()
            if len(started) == 3:
                os.kill(int(started[2]), signal.SIGKILL)
        (self._boxes / container_id).unlink(missing_ok=True)

    def tail(self, container_id, limit):
        return b""

    def engine_id(self):
        return "ENGINE"

    def inspect(self, container_id):
        try:
            made = json.loads((self._boxes / container_id).read_text())
        except FileNotFoundError:
            return None
        status, code = self._status(self._logs / container_id)
        ended = datetime.now(UTC) if status == "exited" else None
        return BoxState(container_id, made["name"], status, code, False, "", None, ended, made["labels"])

    def ours(self, installation):
        found = [self.inspect(path.name) for path in self._boxes.iterdir()]
        return [state for state in found if state is not None]

    @staticmethod
    def _status(log):
        if not log.exists():
            return "created", None
        with log.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return "running", None
            said = file.read()
        if "end " in said:
            return "exited", 0
        return "exited", 97 if "nogo" in said else 137


def intervals(root: Path) -> dict[str, tuple[float, float]]:
    """When each box ran, by its own log; every box that started has also logged its end."""
    found = {}
    for log in (root / "logs").iterdir():
        words = log.read_text().split()
        if "start" in words:
            assert words[0] == "start"
            assert words[3] == "end", log
            found[log.name] = (float(words[1]), float(words[4]))
    return found
