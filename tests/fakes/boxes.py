"""Containers in memory, for tests of the flows; the contract suite keeps them honest."""

import queue
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.box.sandbox import LABEL_INSTALLATION, BoxSpec
from pidispatch.errors import BoxFault, EngineUnavailable, ImageMissing, NameTaken


@dataclass
class _Box:
    spec: BoxSpec
    state: BoxState
    output: bytes = b""


class FakeBoxes:
    """`ports.Boxes` and `ports.BoxWatch`. A box runs until `finish`, but for three programs it knows by heart:
    `sh -c 'exit N'`, `printf TEXT`, `sleep N` (which goes on)."""

    def __init__(self, images: Sequence[str] = ("pi-job:latest",)) -> None:
        self.images = set(images)
        self.down = False
        self.engine = "ENGINE"
        self.made: list[BoxSpec] = []
        self._boxes: dict[str, _Box] = {}
        self._listeners: list[tuple[str, queue.SimpleQueue[str | None]]] = []

    def finish(self, container_id: str, code: int = 0, output: bytes = b"", *, oom: bool = False) -> None:
        """The box's program ends."""
        box = self._boxes[container_id]
        box.output += output
        box.state = replace(
            box.state, status="exited", exit_code=code, oom_killed=oom, finished_at=datetime.now(UTC)
        )
        for installation, listener in self._listeners:
            if box.spec.labels.get(LABEL_INSTALLATION) == installation:
                listener.put(container_id)

    def stop_answering(self) -> None:
        self.down = True
        for _, listener in self._listeners:
            listener.put(None)

    def create(self, spec: BoxSpec) -> str:
        self._answer()
        if spec.image not in self.images:
            raise ImageMissing(spec.image)
        if any(box.spec.name == spec.name for box in self._boxes.values()):
            raise NameTaken(spec.name)
        container_id = secrets.token_hex(32)
        state = BoxState(
            container_id=container_id,
            name=spec.name,
            status="created",
            exit_code=None,
            oom_killed=False,
            error="",
            started_at=None,
            finished_at=None,
            labels=dict(spec.labels),
        )
        self._boxes[container_id] = _Box(spec, state)
        self.made.append(spec)
        return container_id

    def start(self, container_id: str) -> None:
        self._answer()
        box = self._boxes.get(container_id)
        if box is None:
            raise BoxFault(f"no such container: {container_id}")
        box.state = replace(box.state, status="running", started_at=datetime.now(UTC))
        match box.spec.entrypoint:
            case ("sh", "-c", script) if script.startswith("exit "):
                self.finish(container_id, int(script.split()[1]))
            case ("printf", text):
                self.finish(container_id, 0, text.encode())

    def stop(self, container_id: str, *, grace: int) -> None:
        self._answer()
        box = self._boxes.get(container_id)
        if box is not None and box.state.status == "running":
            self.finish(container_id, 143)

    def remove(self, container_id: str) -> None:
        self._answer()
        self._boxes.pop(container_id, None)

    def tail(self, container_id: str, limit: int) -> bytes:
        self._answer()
        box = self._boxes.get(container_id)
        return box.output[-limit:] if box and limit else b""

    def engine_id(self) -> str:
        self._answer()
        return self.engine

    def inspect(self, container_id: str) -> BoxState | None:
        self._answer()
        box = self._boxes.get(container_id)
        return box.state if box else None

    def ours(self, installation: str) -> Sequence[BoxState]:
        self._answer()
        every = (box.state for box in self._boxes.values())
        return [state for state in every if state.labels.get(LABEL_INSTALLATION) == installation]

    def deaths(self, installation: str) -> Iterator[str]:
        self._answer()
        listener: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._listeners.append((installation, listener))
        while (container_id := listener.get()) is not None:
            yield container_id
        raise EngineUnavailable("the stream of events ended")

    def output(self, container_id: str, *, follow: bool) -> Iterator[bytes]:
        self._answer()
        box = self._boxes.get(container_id)
        if box and box.output:
            yield box.output

    def _answer(self) -> None:
        if self.down:
            raise EngineUnavailable("it was switched off by the test")
