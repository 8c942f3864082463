"""Ask the gateway over its control socket, as the worker does."""

import http.client
import json
import os
import socket
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from pidispatch.domain.providers.calls import ProviderFacts
from pidispatch.domain.providers.rates import Rating
from pidispatch.errors import GatewayUnavailable

NAME = "gateway.sock"  # in the run directory
QUICK_SECONDS = 10.0
CLOSE_SECONDS = 40.0
REDACT_SECONDS = 60.0
_MOST_ANSWER = 64 * 1024
_PART = 64 * 1024  # what is masked at once holds the gateway up


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("gateway", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class ControlDoors:
    """`ports.Doors` over the control socket; one short connection for each question, so it is safe after a fork."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def open(self, run_id: int) -> str:
        status, answer = self._ask("PUT", f"/runs/{run_id}")
        directory = answer.get("directory")
        if status != 201 or not isinstance(directory, str):
            raise GatewayUnavailable(f"it opened no door for run {run_id}: {_reason(status, answer)}")
        return directory

    def close(self, run_id: int) -> None:
        status, answer = self._ask("DELETE", f"/runs/{run_id}", seconds=CLOSE_SECONDS)
        if status != 200:
            raise GatewayUnavailable(f"the door of run {run_id} is not closed: {_reason(status, answer)}")

    def provider(self, name: str, model: str | None = None, run: int | None = None) -> ProviderFacts | None:
        asked = {key: value for key, value in (("model", model), ("run", run)) if value is not None}
        query = "?" + urlencode(asked) if asked else ""
        status, answer = self._ask("GET", f"/providers/{quote(name, safe='')}{query}")
        if status == 404:
            return None
        try:
            return _facts(answer)
        except (KeyError, ValueError) as error:
            raise GatewayUnavailable(
                f"its answer about {name} is not one: {_reason(status, answer)}"
            ) from error

    def busy_providers(self, *, seconds: float = QUICK_SECONDS) -> dict[str, datetime]:
        """What is held back now, `provider/model` or all of a `provider`, and until when. Raises GatewayUnavailable."""
        status, answer = self._ask("GET", "/providers", seconds=seconds)
        found = answer.get("busy")
        if status == 404:  # a gateway of an earlier version
            return {}
        if status != 200 or not isinstance(found, dict):
            raise GatewayUnavailable(f"it does not say who is busy: {_reason(status, answer)}")
        try:
            return {str(name): datetime.fromisoformat(str(until)) for name, until in found.items()}
        except ValueError as error:
            raise GatewayUnavailable("its answer about busy providers is not one") from error

    def remove(self, run_id: int) -> None:
        status, answer = self._ask("DELETE", f"/runs/{run_id}/directory", seconds=CLOSE_SECONDS)
        if status != 204:
            raise GatewayUnavailable(
                f"the directory of run {run_id} is not removed: {_reason(status, answer)}"
            )

    def redact(self, data: bytes) -> bytes:
        """The same with every secret masked that the gateway knows; line by line where it is long.

        Raises GatewayUnavailable.
        """
        return b"".join(self._redacted(part) for part in _parts(data))

    def _redacted(self, part: bytes) -> bytes:
        status, body = self._exchange(
            "POST", "/redact", part, seconds=REDACT_SECONDS, most=2 * len(part) + _MOST_ANSWER
        )
        if status != 200:
            raise GatewayUnavailable(f"it masked nothing: {_reason(status, _object(body))}")
        return body

    def ready(self, *, seconds: float = QUICK_SECONDS) -> bool:
        """Whether a gateway answers here, in this time, and has opened all doors."""
        try:
            status, answer = self._ask("GET", "/healthz", seconds=seconds)
        except GatewayUnavailable:
            return False
        return status == 200 and answer.get("ready") is True

    def _ask(self, method: str, path: str, *, seconds: float = QUICK_SECONDS) -> tuple[int, dict[str, Any]]:
        status, body = self._exchange(method, path, None, seconds=seconds, most=_MOST_ANSWER)
        return status, _object(body)

    def _exchange(
        self, method: str, path: str, content: bytes | None, *, seconds: float, most: int
    ) -> tuple[int, bytes]:
        connection = _UnixConnection(self._control, seconds)
        try:
            connection.request(method, path, content, headers={"connection": "close"})
            response = connection.getresponse()
            body = response.read(most)
        except (OSError, http.client.HTTPException) as error:
            raise GatewayUnavailable(f"{self._control}: {error or type(error).__name__}") from error
        finally:
            connection.close()
        return response.status, body


def _parts(data: bytes) -> Iterator[bytes]:
    """Whole lines, some of them at a time; a longer line is a part of its own."""
    part = bytearray()
    for line in data.splitlines(keepends=True):
        if part and len(part) + len(line) > _PART:
            yield bytes(part)
            part.clear()
        part += line
    if part:
        yield bytes(part)


def _facts(answer: dict[str, Any]) -> ProviderFacts:
    """Raises KeyError, ValueError."""
    busy = answer.get("busy_until")
    return ProviderFacts(
        name=str(answer["name"]),
        api=str(answer["api"]),
        known_to_pi=answer["known_to_pi"] is True,
        credential=answer["credential"] is True,
        rating=Rating(answer["rating"]),
        busy_until=None if busy is None else datetime.fromisoformat(str(busy)),
        context_window=_whole(answer.get("context_window")),
        max_tokens=_whole(answer.get("max_tokens")),
        reasoning=_flag(answer.get("reasoning")),
        model_listed=answer.get("model_listed") is True,
        lacks=_word(answer.get("lacks")),
        key_source=_word(answer.get("key_source")),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _reason(status: int, answer: dict[str, Any]) -> str:
    error = answer.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    return f"{status} {message}" if message else str(status)


def open_doors(run_dir: Path) -> list[int]:
    """The run keys with a directory below `<run dir>/g`; anything else that lies there is not ours to judge."""
    try:
        return sorted(int(entry.name) for entry in os.scandir(run_dir / "g") if entry.name.isdecimal())
    except FileNotFoundError:
        return []
