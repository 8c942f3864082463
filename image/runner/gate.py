"""Ask the gateway for the run's go and how it stands, and hand it the signed report, over its unix socket."""

from __future__ import annotations

import hmac
import json
import re
import socket
import time
from typing import Any, NamedTuple

GO_SECONDS = 60.0
REPORT_SECONDS = 30.0  # nothing is lost by waiting, and a lost report is a run that nobody believes
_PAUSE_SECONDS = 0.25
_ANSWER_BYTES = 64 * 1024
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)


class Answer(NamedTuple):
    status: int
    body: bytes


class NoGo(Exception):
    """The gateway did not let the run go; says its word for why."""


def ask_go(gate: str, attempt: int, container: str, *, seconds: float = GO_SECONDS) -> str:
    """The key that signs the report. Retries while nobody answers; raises NoGo.

    A gateway that took the question and says nothing is waited for: it may give the go after a pause of its own, and
    an answer that nobody reads is a run that is lost.
    """
    body = json.dumps({"attempt": attempt, "container": container}).encode()
    end = time.monotonic() + seconds
    problem = "gate-unreachable"
    while True:
        answer = _post(gate, "/go", body, {}, max(0.1, end - time.monotonic()))
        if answer is not None and answer.status < 500:
            return _key(answer)
        if answer is not None:
            problem = f"gate-answers-{answer.status}"
        if time.monotonic() + _PAUSE_SECONDS >= end:
            raise NoGo(problem)
        time.sleep(_PAUSE_SECONDS)


def send_report(gate: str, key: str, report: dict[str, Any], *, seconds: float = REPORT_SECONDS) -> bool:
    """True when the gateway kept it. Never raises: the exit code says the same, with less trust."""
    body = json.dumps(report).encode()
    headers = {"X-Pidispatch-Signature": hmac.new(key.encode(), body, "sha256").hexdigest()}
    end = time.monotonic() + seconds
    while True:
        answer = _post(gate, "/report", body, headers, max(0.1, end - time.monotonic()))
        if answer is not None and answer.status < 500:
            return 200 <= answer.status < 300
        if time.monotonic() + _PAUSE_SECONDS >= end:
            return False
        time.sleep(_PAUSE_SECONDS)


def _key(answer: Answer) -> str:
    try:
        said = json.loads(answer.body)
    except ValueError:
        said = None
    said = said if isinstance(said, dict) else {}
    key = said.get("key")
    if answer.status == 200 and said.get("go") is True and isinstance(key, str) and _KEY.fullmatch(key):
        return key
    raise NoGo(str(said.get("reason") or f"gate-answers-{answer.status}")[:200])


def get(gate: str, path: str, seconds: float) -> Answer | None:
    """None when no whole answer came within `seconds`."""
    return _ask(gate, f"GET {path}", seconds)


def _post(gate: str, path: str, body: bytes, headers: dict[str, str], seconds: float) -> Answer | None:
    return _ask(gate, f"POST {path}", seconds, body=body, headers=headers)


def _ask(
    gate: str, line: str, seconds: float, *, body: bytes = b"", headers: dict[str, str] | None = None
) -> Answer | None:
    """One request, one connection; None when no whole answer came. (http.client costs 11 ms to import.)"""
    lines = [
        f"{line} HTTP/1.1",
        "Host: gate",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(gate)
            connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            return _read_answer(connection)
    except (OSError, ValueError):
        return None


def _read_answer(connection: socket.socket) -> Answer | None:
    raw = b""
    while len(raw) < _ANSWER_BYTES:
        head, found, body = raw.partition(b"\r\n\r\n")
        length = _length(head) if found else None
        if length is not None and len(body) >= length:
            return Answer(int(head.split(None, 2)[1]), body[:length])
        chunk = connection.recv(_ANSWER_BYTES)
        if not chunk:
            return Answer(int(head.split(None, 2)[1]), body) if found and length is None else None
        raw += chunk
    return None


def _length(head: bytes) -> int | None:
    if head.split(None, 2)[1] == b"204":
        return 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return None
