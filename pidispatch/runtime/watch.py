"""Look at containers without touching them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import docker.errors

from pidispatch.domain.sandbox import LABEL_INSTALLATION
from pidispatch.errors import EngineUnavailable
from pidispatch.ports import BoxState
from pidispatch.runtime.engine import Engine, translated
from pidispatch.runtime.filesystems import PROCESSES
from pidispatch.runtime.logs import log_frames


class DockerWatch:
    """`ports.BoxWatch` on a Docker engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def inspect(self, container_id: str) -> BoxState | None:
        with translated(f"inspect {container_id[:12]}"):
            try:
                return box_state(self._engine.api.inspect_container(container_id))
            except docker.errors.NotFound:
                return None

    def engine_id(self) -> str:
        with translated("ask which engine this is"):
            return str(self._engine.api.info()["ID"])

    def ours(self, installation: str) -> Sequence[BoxState]:
        return self.with_label(LABEL_INSTALLATION, installation)

    def with_label(self, label: str, value: str) -> Sequence[BoxState]:
        """Every container with this label, in any state, whoever made it. Raises EngineUnavailable."""
        with translated("list our containers"):
            listed = self._engine.api.containers(all=True, filters={"label": f"{label}={value}"})
        # The list has neither exit codes nor times; what went away in between is left out.
        seen = (self.inspect(str(entry["Id"])) for entry in listed)
        return [state for state in seen if state is not None]

    def deaths(self, installation: str) -> Iterator[str]:
        filters = {"type": "container", "event": "die", "label": f"{LABEL_INSTALLATION}={installation}"}
        with translated("listen for containers that end"), self._forgetting():
            events = self._engine.api.events(filters=filters, decode=True)
            try:
                for event in events:
                    container_id = event.get("Actor", {}).get("ID")
                    if container_id:
                        yield str(container_id)
            finally:
                with suppress(OSError):  # the engine may have hung up first
                    events.close()
        # An engine that is shut down ends the stream in good order.
        raise EngineUnavailable("the stream of events ended")

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        """Whoever listens hears of every restart: after it, another engine may answer at the same place."""
        try:
            yield
        finally:
            self._engine.forget()

    def output(self, container_id: str, *, follow: bool) -> Iterator[bytes]:
        with translated(f"read the output of {container_id[:12]}"):
            try:
                with log_frames(self._engine.api, container_id, follow=follow) as frames:
                    for _, piece in frames:
                        yield piece
            except docker.errors.NotFound:
                return


def box_state(facts: dict[str, Any]) -> BoxState:
    """Read the engine's answer to `inspect`. What cannot be read is None, never a guess."""
    state = facts.get("State") or {}
    status = str(state.get("Status") or "")
    code = state.get("ExitCode")
    ended = status in {"exited", "dead"}
    started = engine_time(state.get("StartedAt"))
    finished = engine_time(state.get("FinishedAt")) if ended else None
    if started and finished:
        # The engine may note the start of a short-lived process after its end (3 ms were seen).
        finished = max(started, finished)
    return BoxState(
        container_id=str(facts["Id"]),
        name=str(facts.get("Name") or "").removeprefix("/"),
        status=status,
        # Docker says 0 for a container that still runs, and 127 for one that could not start.
        exit_code=code if ended and isinstance(code, int) else None,
        oom_killed=state.get("OOMKilled") is True,
        error=str(state.get("Error") or ""),
        started_at=started,
        finished_at=finished,
        labels=dict((facts.get("Config") or {}).get("Labels") or {}),
        writes={
            place: _in_box(facts, place) or path for place, path in _sources(facts, writable=True).items()
        },
        reads=_sources(facts, writable=False),
    )


def _sources(facts: dict[str, Any], *, writable: bool) -> dict[str, str]:
    return {
        str(mount.get("Destination")): str(mount["Source"])
        for mount in facts.get("Mounts") or ()
        if mount.get("Type") == "bind" and mount.get("Source") and bool(mount.get("RW", True)) is writable
    }


def _in_box(facts: dict[str, Any], place: str) -> str | None:
    """What a live box has there, whatever its name on the host has come to mean; None where nobody may look.

    A folder is told to the engine by a bind that is gone once the box has started, and a name may be exchanged.
    """
    state = facts.get("State") or {}
    if not state.get("Running") or not isinstance(state.get("Pid"), int) or state["Pid"] <= 0:
        return None
    path = f"{PROCESSES}/{state['Pid']}/root{place}"
    return path if os.path.exists(path) else None  # noqa: PTH110 - no error where it may not look


def engine_time(text: object) -> datetime | None:
    """An aware UTC time from Docker's RFC 3339 with nanoseconds; its year 1 means never."""
    try:
        time = datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time if time.year > 1 else None
